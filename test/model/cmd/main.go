// Command cmd is a model that says what a script tells it to, for trying an agent without
// a provider: it speaks the APIs of OpenAI (Chat Completions and Responses), Anthropic and
// Gemini, streaming and not, and refuses what they would refuse.
//
//	go run ./test/model/cmd examples/script.json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-run/sluice/test/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "model: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:8484", "where it listens, host:port; port 0 takes any free one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one file, the script: a JSON array of steps with text, calls of id, tool and args, and cut")
	}
	f, err := os.Open(flags.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	steps, err := model.ReadScript(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	s, err := model.Start(*address, steps...)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(out, "export OPENAI_BASE_URL=%[1]s/v1 OPENAI_API_KEY=none\nexport ANTHROPIC_BASE_URL=%[1]s ANTHROPIC_API_KEY=none\nexport GOOGLE_GEMINI_BASE_URL=%[1]s GEMINI_API_KEY=none\n", s.URL)
	<-ctx.Done()
	return nil
}
