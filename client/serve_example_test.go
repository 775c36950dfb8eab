package client_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

type weatherIn struct {
	City string `json:"city" jsonschema_description:"its name in English"`
}

// A worker serves one tool until it is told to leave. Here a node asks it once.
func ExampleServe() {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	node, over := exampleNode(ctx)
	defer over()
	nc, err := nats.Connect(node.url, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()

	weather := client.Handle("weather", "Says how the weather is.", events.Readonly,
		func(_ context.Context, t client.Task, in weatherIn) (string, error) {
			if in.City == "Atlantis" {
				return "", &client.ToolError{Code: events.NotFound, Message: "there is no such city any more", Path: "/city"}
			}
			return "sunny in " + in.City, nil
		})
	served := make(chan error)
	go func() { served <- client.Serve(ctx, client.WorkerConfig{Conn: nc}, weather) }()

	fmt.Println(node.call(ctx, "weather", `{"city":"Oslo"}`).Result.Text.Text)
	fmt.Println(node.call(ctx, "weather", `{"city":"Atlantis"}`).Result.Error.Message)
	leave() // as SIGTERM would: what runs may end
	fmt.Println(<-served)
	// Output:
	// sunny in Oslo
	// there is no such city any more
	// <nil>
}

// A tool of typed parameters has its schema from them.
func ExampleHandle() {
	tool := client.Handle("weather", "Says how the weather is.", events.Readonly,
		func(_ context.Context, t client.Task, in weatherIn) (map[string]any, error) {
			t.Progress("looking out of the window", 1, 2)
			return map[string]any{"city": in.City, "degrees": 21}, nil
		})
	fmt.Println(string(tool.Schema))
	// Output:
	// {"properties":{"city":{"type":"string","description":"its name in English"}},"additionalProperties":false,"type":"object","required":["city"]}
}

// exampleNode is a node that examples ask, and how to end it. What fails ends the example.
func exampleNode(ctx context.Context) (node *shop, over func()) {
	dir, err := os.MkdirTemp("", "sluice-example-")
	if err != nil {
		panic(err)
	}
	s, err := openShop(ctx, dir)
	if err != nil {
		panic(err)
	}
	return s, func() {
		s.close()
		_ = os.RemoveAll(dir) // it is the system's folder for such things
	}
}
