# Sluice. `make demo` shows the main job, `make test` passes the tests; both
# build what they need. Everything else is listed by `make help`.

GO       ?= go
DATA     ?= $(CURDIR)/.demo
FUZZTIME ?= 10s
SEED     ?=
SEEDS    ?= 20000
BENCH    ?=
VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)

GOFLAGS_BUILD = -trimpath -ldflags "-X github.com/sluice-run/sluice/cmd/internal/command.Stamp=$(VERSION)"
FILES = $(shell git ls-files '*.go')

.DEFAULT_GOAL := build

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / — /'

.PHONY: build
build: ## bin/sluice-node and bin/sluice-replay
	$(GO) build $(GOFLAGS_BUILD) -o bin/sluice-node ./cmd/node
	$(GO) build $(GOFLAGS_BUILD) -o bin/sluice-replay ./cmd/replay

.PHONY: demo
demo: build ## the main job on the embedded default, on DATA=
	bin/sluice-node demo --data $(DATA)

.PHONY: test
test: ## all tests, with the race detector
	$(GO) test -race -timeout 25m ./...

.PHONY: lint
lint: ## vet, staticcheck, gofumpt and go.mod
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@out=$$($(GO) tool gofumpt -l $(FILES)); if [ -n "$$out" ]; then echo "gofumpt: run 'go tool gofumpt -w' on:"; echo "$$out"; exit 1; fi
	$(GO) mod tidy -diff

.PHONY: schemas
schemas: ## write schemas/ anew from the Go types
	$(GO) generate ./schemas

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME= each
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "fuzz $$pkg $$f for $(FUZZTIME)"; \
	    $(GO) test $$pkg -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME); \
	  done; done

.PHONY: sim
sim: ## the simulator over SEEDS= seeds, or one SEED=
	$(GO) test ./test/sim -run Sim -count=1 -v $(if $(SEED),-seed=$(SEED),-seeds=$(SEEDS))

.PHONY: mutants
mutants: ## faults put into the deciders on purpose, each of which the simulator must find
	$(GO) test ./test/sim -run Mutants -count=1 -v -mutants

.PHONY: bench
bench: bench-calls ## every benchmark
	$(GO) test ./... -run '^$$' -bench . -benchtime 2s

.PHONY: bench-calls
bench-calls: ## turns through the whole product, next to the bare log
	$(GO) run ./test/bench/calls $(BENCH)

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin $(DATA)
