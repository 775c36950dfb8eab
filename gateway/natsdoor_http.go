package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// byHTTP answers a verb as the HTTP door answers a route: by the route's own handler, to
// which the members of the body are the parts of the path, the parameters and the body. What
// the route's types, bounds and problems are, they are here.
func (d *NATSDoor) byHTTP(pattern string) func(ctx context.Context, r natsRequest) (int, any, error) {
	return func(ctx context.Context, r natsRequest) (int, any, error) {
		routes := d.api.routes()
		i := slices.IndexFunc(routes, func(rt route) bool { return rt.pattern == pattern })
		if i < 0 {
			return 0, nil, fmt.Errorf("there is no route %s", pattern)
		}
		req, err := r.http(ctx, routes[i])
		if err != nil {
			return 0, nil, err
		}
		defer d.api.letGo(visitOf(req))
		if err := d.api.allowed(req, routes[i], strings.Contains(pattern, "{turn}")); err != nil {
			return 0, nil, err
		}
		w := &written{head: http.Header{}, status: http.StatusOK}
		if err := routes[i].serve(w, req); err != nil {
			return 0, nil, err
		}
		return w.status, json.RawMessage(bytes.TrimSpace(w.body.Bytes())), nil
	}
}

// written is an answer as it is written, in memory.
type written struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

// Header is http.ResponseWriter's.
func (w *written) Header() http.Header { return w.head }

// WriteHeader is http.ResponseWriter's.
func (w *written) WriteHeader(status int) { w.status = status }

// Write is http.ResponseWriter's.
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }

// http is the request as HTTP would have it, from the same caller.
func (r natsRequest) http(ctx context.Context, rt route) (*http.Request, error) {
	method, path, _ := strings.Cut(rt.pattern, " ")
	var members map[string]json.RawMessage
	if err := r.decode(&members); err != nil {
		return nil, err
	}
	req := (&http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}, Host: "localhost"}).
		WithContext(context.WithValue(ctx, visitKey{}, &visit{who: r.who}))
	for part := range strings.SplitSeq(path, "/") {
		name, ok := strings.CutPrefix(part, "{")
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		values, err := valuesOf(name, members[name])
		if err != nil || len(values) != 1 {
			return nil, BadRequest("the body does not name one "+name, "send "+name+", as a text or a number")
		}
		req.SetPathValue(name, values[0])
		delete(members, name)
	}
	query := make(url.Values)
	for _, name := range strings.Fields(rt.query) {
		if raw, there := members[name]; there {
			values, err := valuesOf(name, raw)
			if err != nil {
				return nil, err
			}
			query[name] = values
			delete(members, name)
		}
	}
	req.URL.RawQuery = query.Encode()
	if method == http.MethodGet {
		for name := range members {
			return nil, unknownField(name, "", known(rt))
		}
		return req, nil
	}
	body, err := json.Marshal(members)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return req, err
}

// known are the names that a route's path and parameters have.
func known(rt route) []string {
	var out []string
	for part := range strings.SplitSeq(rt.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			out = append(out, strings.TrimSuffix(name, "}"))
		}
	}
	return append(out, strings.Fields(rt.query)...)
}

// valuesOf are a member's values as a parameter has them: of a text, a number, true, false,
// or a list of these.
func valuesOf(name string, raw json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	if len(list) > maxQuery {
		return nil, BadRequest(fmt.Sprintf("%s has %d values", name, len(list)), fmt.Sprintf("send at most %d", maxQuery))
	}
	var out []string
	for _, one := range list {
		var text string
		switch {
		case isNull(one):
			continue
		case json.Unmarshal(one, &text) == nil:
		case one[0] == '{' || one[0] == '[':
			return nil, BadRequest(fmt.Sprintf("field %q is no text, number or list of these", name), "send it as a parameter of HTTP would have it")
		default:
			text = string(one)
		}
		out = append(out, text)
	}
	return out, nil
}

// history is a page of a turn's own events: GET …/events, with this door's bound.
func (d *NATSDoor) history(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		natsKey
		Cursor string `json:"cursor,omitempty"`
		Limit  int    `json:"limit,omitempty"` // 1 to 1000; 0 means as many as a page holds
	}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Limit < 0 || in.Limit > maxTurnPage {
		return 0, nil, BadRequest(fmt.Sprintf("limit %d", in.Limit), fmt.Sprintf("say 1 to %d, or nothing for as many as a page holds", maxTurnPage))
	}
	behind, err := cursorOf(in.Cursor)
	if err != nil {
		return 0, nil, err
	}
	key, err := in.turn()
	if err != nil {
		return 0, nil, err
	}
	v, err := d.may(ctx, r.who, access.Read, key)
	if err != nil {
		return 0, nil, err
	}
	out, err := v.eventsBehind(behind, in.Limit, maxPageBytes)
	return http.StatusOK, out, err
}

// maxPiece is the size in bytes of the largest piece of a blob: it travels as base64.
const maxPiece = 512 << 10

// piece is a part of a blob.
type piece struct {
	Digest string `json:"digest"`
	Size   int    `json:"size"`   // of the whole
	Offset int    `json:"offset"` // of the piece
	Data   []byte `json:"data"`   // base64; empty behind the end
}

// blob is a piece of what GET /v1/blobs/{digest} is.
func (d *NATSDoor) blob(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		Digest string `json:"digest"`
		Trace  string `json:"trace,omitempty"` // of a turn that refers to it: for who may not read everything
		Turn   string `json:"turn,omitempty"`
		Offset int    `json:"offset,omitempty"`
		Limit  int    `json:"limit,omitempty"` // bytes; 0 means maxPiece
	}
	err := r.decode(&in)
	if err == nil {
		err = checkDigest(in.Digest)
	}
	switch {
	case err != nil:
		return 0, nil, err
	case in.Offset < 0:
		return 0, nil, BadRequest(fmt.Sprintf("offset %d", in.Offset), "say where the piece begins, from 0")
	case in.Limit < 0 || in.Limit > maxPiece:
		return 0, nil, BadRequest(fmt.Sprintf("limit %d", in.Limit), fmt.Sprintf("say 1 to %d bytes, or nothing", maxPiece))
	}
	var data []byte
	if r.who.Reach(access.Read) == access.All {
		data, err = d.desk.Blob(ctx, events.BlobRef{Digest: in.Digest})
	} else if in.Trace == "" || in.Turn == "" {
		err = BadRequest("the turn is missing whose bytes these are", "name a turn of yours, with trace and turn; the role observer reads any bytes")
	} else {
		data, err = d.desk.BlobOf(ctx, r.who, events.TurnKey{Trace: in.Trace, Turn: in.Turn}, in.Digest)
	}
	if err != nil {
		return 0, nil, err
	}
	limit := maxPiece
	if in.Limit > 0 {
		limit = in.Limit
	}
	begin := min(in.Offset, len(data))
	out := piece{Digest: in.Digest, Size: len(data), Offset: begin, Data: data[begin:min(begin+limit, len(data))]}
	return http.StatusOK, out, nil
}
