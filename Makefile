# Sluice. `make demo` shows the main job, `make test` passes the tests; both
# build what they need. Everything else is listed by `make help`.

GO       ?= go
DATA     ?= $(CURDIR)/.demo
FUZZTIME ?= 10s
SEED     ?=
SEEDS    ?= 20000
CALLS    ?= 1000
TIMES    ?= 10
RUNS     ?= 20
PARKED   ?= 5000
EVENTS   ?= 5000000
CHECKS   ?= 500
LINES    ?= 20000
DURATION ?= 10m
DIR      ?= $(CURDIR)/.cluster
SOAK     ?=
OUT      ?= $(CURDIR)/.soak
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
	$(GO) vet -tags faults ./cmd/node ./cmd/internal/session ./bus/jetlog
	$(GO) tool staticcheck ./...
	@out=$$($(GO) tool gofumpt -l $(FILES)); if [ -n "$$out" ]; then echo "gofumpt: run 'go tool gofumpt -w' on:"; echo "$$out"; exit 1; fi
	$(GO) mod tidy -diff

.PHONY: vuln
vuln: ## known vulnerabilities in what is built in and called; needs the Go module proxy
	$(GO) run ./test/vuln

.PHONY: schemas
schemas: ## write schemas/ anew from the Go types
	$(GO) generate ./schemas

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME= each
	@$(GO) run ./test/fuzz -time $(FUZZTIME)

.PHONY: shell-long
shell-long: ## allowed shell lines, run in bash and watched, LINES= of each kind; and what they show
	$(GO) test ./policy/shell -run 'RandomLinesOnlyRead' -count=1 -v -timeout 60m -trace.lines=$(LINES)
	$(GO) test ./tools/shell -run 'NothingOutside|NothingHides' -count=1 -v -timeout 60m -leak.lines=$(LINES) -rapid.checks=$(LINES)

.PHONY: test-sandbox
test-sandbox: ## the tests of commands once more, in every form of containment
	$(GO) test ./tools/shell -sandbox all -count=1
	$(GO) test ./tools/shell -sandbox landlock -count=1

.PHONY: hostile
hostile: ## random hostile clients on NATS; prints its seed
	$(GO) test ./test/e2e -run TestNATSHostile -hostile-count=100000 -count=1 -v -timeout 30m

.PHONY: sim
sim: ## the simulator over SEEDS= seeds, or one SEED=
	$(GO) test ./test/sim -run Sim -count=1 -v -timeout 60m $(if $(SEED),-seed=$(SEED),-seeds=$(SEEDS))
	$(if $(SEED),,$(GO) test ./test/sim/deciders -run Deciders -count=1 -v -timeout 60m -seeds=$(SEEDS))

.PHONY: sim-again
sim-again: ## what the simulators made of SEEDS= seeds, decided again: nothing may differ
	$(GO) test ./test/sim -run WhatHappened -count=1 -v -timeout 60m -again=$(SEEDS)
	$(GO) test ./test/sim/deciders -run WhatHappened -count=1 -v -timeout 60m -seeds=$(SEEDS)

.PHONY: fault-mutants
fault-mutants: ## each law broken on purpose; the fault run must name it
	$(GO) test ./cmd/replay -run TestLawMutants -count=1 -v -timeout 60m -fault.mutants

.PHONY: fault-rounds
fault-rounds: ## many rounds of several faults on recorded turns, SEED= the first
	$(GO) test ./cmd/replay/fault -run 'Rounds|Corpus' -count=1 -v -timeout 60m -fault.rounds=20000 -fault.every $(if $(SEED),-fault.seed=$(SEED))

.PHONY: readstore-long
readstore-long: ## the read store under random logs, kills and lost tails, CHECKS= of each
	$(GO) test ./projections/readstore -run 'Incremental|FoldsTell|Dying|AFaultLeaves|Rewound|Pruned|ScanFinds|SyntaxError|SIGKILL' -count=1 -v -timeout 60m -rapid.checks=$(CHECKS) -kill.times=100

.PHONY: incident
incident: build ## record the incident of docs/replay.md anew, and write what its commands print into the page
	$(GO) run ./test/incident -bin bin -o docs/replay/incident.sluice
	$(GO) test ./test/incident -run Pages -rewrite

.PHONY: mutants
mutants: ## faults put into the code on purpose, each of which the simulators must find
	$(GO) test ./test/sim -run Mutants -count=1 -v -timeout 2h -mutants

.PHONY: kills
kills: ## SIGKILL at every durable boundary, for every tier, on every keeper, with the table
	$(GO) test ./test/e2e -run KillAtEvery -count=1 -v -timeout 90m -kill.all

.PHONY: chaos
chaos: ## CALLS= calls under random kills of three nodes and of the NATS leader
	$(GO) test ./test/e2e -run CallsUnderRandomKills -count=1 -v -timeout 60m -kills.calls=$(CALLS) $(if $(SKEW),-kills.skew) $(if $(SEED),-kills.seed=$(SEED))

.PHONY: linear
linear: ## histories of locks, breakers, keys and appends on real JetStream, TIMES= times longer, judged by porcupine
	$(GO) test ./bus/jetlog -run '^TestLinear' -count=1 -v -timeout 3h -linear.times=$(TIMES) $(if $(SEED),-linear.seed=$(SEED))
	$(GO) test ./actors -run '^TestL(inear|ocks)' -count=1 -v -timeout 3h -linear.times=$(TIMES) $(if $(SEED),-linear.seed=$(SEED))

.PHONY: power
power: ## the power fails RUNS= times under load
	$(GO) test ./test/e2e -run 'PowerFails|ADiskThatLied' -count=1 -v -timeout 60m -power=$(RUNS) $(if $(SEED),-seed=$(SEED))

.PHONY: parked
parked: ## PARKED= turns wait for people at once
	$(GO) test ./test/e2e -run ThousandsOfTurns -count=1 -v -timeout 60m -parked=$(PARKED)

.PHONY: cluster
cluster: build ## three NATS servers and three nodes on this machine, in DIR=, until Ctrl-C
	@mkdir -p bin && $(GO) build -o bin/cluster ./test/cluster/cmd
	bin/cluster -node bin/sluice-node -dir $(DIR)

.PHONY: soak
soak: build ## load and faults for DURATION=, plotted to a PNG in OUT=
	$(GO) run ./test/soak -node bin/sluice-node -replay bin/sluice-replay -commit $(VERSION) -duration $(DURATION) -out $(OUT) $(SOAK) $(if $(SEED),-seed $(SEED))

.PHONY: bench
bench: bench-calls ## every benchmark
	$(GO) test ./... -run '^$$' -bench . -benchtime 2s

.PHONY: bench-calls
bench-calls: ## turns through the whole product, next to the bare log
	$(GO) run ./test/bench/calls $(BENCH)

.PHONY: bench-takeover
bench-takeover: build ## how long a turn takes to go on after the SIGKILL of its owner
	$(GO) run ./test/bench/takeover -node bin/sluice-node $(BENCH)

.PHONY: bench-policy
bench-policy: ## what a decision costs: the policy alone, with 200 more policies, shell lines, paths, addresses, the door
	$(GO) test ./policy/cedar -run '^$$' -bench Mix -benchtime 2000x
	$(GO) test ./policy/shell -run '^$$' -bench Classify300
	$(GO) test ./policy -run '^$$' -bench .
	$(GO) test ./gateway -run '^$$' -bench BenchmarkGuard

.PHONY: bench-sandbox
bench-sandbox: ## what containment adds to the start of a command
	$(GO) test ./tools/shell -run '^$$' -bench Start -benchtime 200x

.PHONY: bench-replay
bench-replay: ## a trace of TRACE= events opened and shown anywhere, and one found in a log of LOG= events
	$(GO) test ./cmd/replay -run '^$$' -bench '^Benchmark(Open|Find)$$' -benchtime 1x -timeout 90m $(if $(TRACE),-bench.events=$(TRACE)) $(if $(LOG),-bench.log=$(LOG))

.PHONY: bench-fault
bench-fault: build ## every fault between any two stages of the recorded conversations, timed
	@d=$$(mktemp -d) && for f in airline_gpt4o coding_marshmallow; do gunzip -c test/data/$$f.jsonl.gz | bin/sluice-replay import --data $$d - | tail -1; done && \
	  bin/sluice-replay fault --data $$d --all --all-pairs --all-kinds --svg docs/pictures/matrix.svg; s=$$?; rm -rf $$d; exit $$s

.PHONY: bench-readstore
bench-readstore: ## a read store filled from EVENTS= events, and how long it takes to find something
	$(GO) test ./projections/readstore -run '^TestScale$$' -count=1 -v -timeout 60m -scale.events=$(EVENTS)

.PHONY: bench-mcp
bench-mcp: build ## what Sluice adds to a call of an MCP server, by sync mode, against the server directly
	$(GO) run ./test/bench/mcp -node bin/sluice-node $(BENCH)

.PHONY: bench-plan
bench-plan: ## planning a turn that may write, with 10, 1 000 and 20 000 turns before it in its trace
	$(GO) test ./actors -run '^$$' -bench PlanLongTrace -benchtime 2000x

.PHONY: bench-remote
bench-remote: ## an attempt of a worker's tool over NATS, from the offer to the answer
	$(GO) test ./client -run '^$$' -bench Serve -benchtime 5s

.PHONY: client-long
client-long: ## the Go client against a server that fails half of the time, TIMES= times
	$(GO) test -race ./client -run 'Flaky|StreamsThat' -count=$(TIMES) -turns 1000 -timeout 60m

.PHONY: codec-long
codec-long: ## every format into every other one, and every prefix, 20 000 times each
	$(GO) test ./gateway/codec -run 'Pair|Themselves|EveryPrefix' -count=1 -timeout 60m -rapid.checks=20000

.PHONY: test-npm
test-npm: ## the examples with the real SDKs, their types and their readers of streams; needs the npm registry
	$(GO) test ./test/npm -count=1 -v

.PHONY: check-deploy
check-deploy: ## the alerts of deploy/ against made-up series; needs the Go module proxy
	@d=$$(mktemp -d) && cd $$d && $(GO) mod init check 2>/dev/null && $(GO) get github.com/prometheus/prometheus/cmd/promtool@v0.308.0 && \
	  $(GO) run github.com/prometheus/prometheus/cmd/promtool test rules $(CURDIR)/deploy/prometheus/alerts_test.yml; s=$$?; rm -rf $$d; exit $$s

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin $(DATA) $(DIR) $(OUT)
