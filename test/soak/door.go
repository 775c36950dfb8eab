package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// door reaches the nodes over HTTP, one after the other.
type door struct {
	urls   []string
	next   atomic.Uint64
	client *http.Client
}

func newDoor(urls []string) *door {
	return &door{urls: urls, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}}}
}

func (d *door) close() { d.client.CloseIdleConnections() }

// reply is what a node answered.
type reply struct {
	status int
	body   []byte
}

// problem is the type of a refusal, such as busy; "" if it is none.
func (r reply) problem() string {
	var p struct{ Type string }
	const prefix = "urn:sluice:problem:"
	if json.Unmarshal(r.body, &p) != nil || len(p.Type) < len(prefix) {
		return ""
	}
	return p.Type[len(prefix):]
}

// passing says that the same request may be answered otherwise soon.
func (r reply) passing() bool { return r.status >= 500 || r.problem() == "busy" }

// maxReply is the most that is read of an answer.
const maxReply = 16 << 20

// ask sends one request to the next node, and waits as long as limit.
func (d *door) ask(ctx context.Context, limit time.Duration, method, path string, body any) (reply, error) {
	url := d.urls[d.next.Add(1)%uint64(len(d.urls))]
	return d.askOf(ctx, limit, url, method, path, body)
}

func (d *door) askOf(ctx context.Context, limit time.Duration, url, method, path string, body any) (reply, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url+path, in)
	if err != nil {
		return reply{}, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	return reply{resp.StatusCode, b}, err
}

// again is how long to wait BEFORE a request is repeated.
const again = 200 * time.Millisecond

// insist asks until a node answers something that will stay so. trouble is called
// for each request that has to be repeated.
func (d *door) insist(ctx context.Context, limit time.Duration, trouble func(), method, path string, body any) (reply, error) {
	for {
		r, err := d.ask(ctx, limit, method, path, body)
		if err == nil && !r.passing() {
			return r, nil
		}
		if ctx.Err() != nil {
			return reply{}, errors.Join(ctx.Err(), err)
		}
		trouble()
		pause(ctx, again)
	}
}
