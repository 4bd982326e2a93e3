# Bursar: how it is built, checked and measured. `make help` lists the targets.
#
# Needed on the machine: Go, git, make, bash, and gcc for the race detector. Every other tool is a
# Go module pinned in tools/<name>/go.mod and built once into .cache/tools/<name>-<version>/.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules --no-print-directory

MODULE  := $(shell awk '$$1 == "module" { print $$2 }' go.mod)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Everything is compiled once, as it is shipped: static, and without the paths of this machine.
# Only builds with the race detector differ.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath $(filter-out -trimpath,$(shell go env GOFLAGS))

# What a person may set on the command line.
SEEDS     ?= 20000
BENCH     ?= .
FUZZTIME  ?= 10s
# Packages, or files of one, whose survivors have all been examined: docs/adr/0030-mutants.md.
MUTANTS   ?= ./resource ./resource/linkis ./label \
             ./agent/tracker ./coordinator/placement ./coordinator/ledger ./coordinator/turns
KILLS     ?= 100
SOAKTIME  ?= 10m
JOBS      ?= 1000
SUBMISSIONS ?= 200
ARCHES    ?=
PARTS     ?=
CASES     ?= .
ENGINES   ?= .
PACKAGE_VERSION ?=
PEERS     ?=
REV       ?=

# The tools, by the version that their module pins.
pinned        = $(shell awk '$$1 == "$(2)" { print $$2 }' tools/$(1)/go.mod)
tool          = .cache/tools/$(1)-$(call pinned,$(1),$(2))/$(1)
BUF           := $(call tool,buf,github.com/bufbuild/buf)
GOLANGCI_LINT := $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2)
GRPCURL       := $(call tool,grpcurl,github.com/fullstorydev/grpcurl)
NODE_EXPORTER := $(call tool,node-exporter,github.com/prometheus/node_exporter)
TELEGRAF      := $(call tool,telegraf,github.com/influxdata/telegraf)
NFPM          := $(call tool,nfpm,github.com/goreleaser/nfpm/v2)
CONSUL        := $(call tool,consul,github.com/hashicorp/consul)

# A heading with the time of day, and a line with how long it took, so that a log says where the
# time went. timed is for one command. Parts that run next to others say on the terminal when they
# begin and end; so do those that are only noted.
section = @printf '\n== %(%T)T  %s\n' -1 '$(1)'
timed = .ci/part $@
noted = .ci/part -q $@

# What tests run of go downloads nothing: modules is a prerequisite of all of them.
offline = env GOPROXY=off

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- build and run -------------------------------------------------------------------------------

.PHONY: build
build: ## Build bin/bursar, bin/bursar-keeper, bin/bursar-linkis-check: static, with their version
	go build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o bin/bursar ./cmd/bursar
	go build -buildvcs=false -ldflags '-s -w' -o bin/bursar-keeper ./cmd/bursar-keeper
	go build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' \
	  -o bin/bursar-linkis-check ./integrations/linkis/bursar-linkis-check

.PHONY: run
run: build ## Build, then show the main job on this machine and stay up
	bin/bursar dev --demo

.PHONY: cluster
cluster: build $(CONSUL) postgres ## Show three coordinators, two hosts, Consul, PostgreSQL; stay up
	go run ./test/cluster -bursar bin/bursar

.PHONY: queues
queues: build yarn ## Show Bursar next to a real YARN cluster with queues, and stay up
	go build -buildvcs=false -o bin/queues ./test/yarn/demo
	@bin/queues -bursar bin/bursar

.PHONY: tools
tools: $(BUF) $(GOLANGCI_LINT) $(GRPCURL) $(CONSUL) $(NFPM) ## Build the tools of lint and tests

# "tool" is what the module's go.mod names as its tool.
.cache/tools/%:
	$(call section,tools: $(notdir $@) (minutes the first time))
	@.ci/part -q 'tools: $(notdir $@)' go -C tools/$(notdir $@) build -buildvcs=false -o $(CURDIR)/$@ tool

$(BUF): tools/buf/go.mod tools/buf/go.sum
$(GOLANGCI_LINT): tools/golangci-lint/go.mod tools/golangci-lint/go.sum
$(GRPCURL): tools/grpcurl/go.mod tools/grpcurl/go.sum
$(NODE_EXPORTER): tools/node-exporter/go.mod tools/node-exporter/go.sum
$(TELEGRAF): tools/telegraf/go.mod tools/telegraf/go.sum
telegraf_tags := custom,inputs.procstat,inputs.mem,outputs.discard
$(TELEGRAF): export GOFLAGS := $(GOFLAGS) -ldflags=-s -tags=$(telegraf_tags)
$(NFPM): tools/nfpm/go.mod tools/nfpm/go.sum
$(NFPM): export GOFLAGS := $(GOFLAGS) -ldflags=-s
$(CONSUL): tools/consul/go.mod tools/consul/go.sum
$(CONSUL): export GOFLAGS := $(GOFLAGS) -ldflags=-s

# Of this version, and of the one before, which test-ha builds.
.PHONY: modules
modules: ## Download the modules that are compiled, of old versions too
	@$(noted) go mod download
	@$(noted) tools/before/provide.sh

# Tests and the cluster run one of their own.
.PHONY: postgres
postgres: ## Make sure that PostgreSQL's server is installed
	@$(noted) tools/postgres/provide.sh

# They check packages and units.
.PHONY: packaging
packaging: ## Make sure that systemd-analyze, lintian, rpm and man are installed
	@$(noted) tools/packages/provide.sh

# For test/yarn, which runs ResourceManagers.
.PHONY: yarn
yarn: ## Make sure that Java and the jars of Hadoop are there
	@$(noted) tools/yarn/provide.sh

# For test/linkis, which runs MariaDB and Java. LINKIS_HOME is a built Linkis: its servers are
# published nowhere. Next to a worktree is none, but next to the checkout that it belongs to.
LINKIS_HOME ?= $(abspath $(shell git rev-parse --git-common-dir 2>/dev/null || echo .git)/../../shared/linkis)
export LINKIS_HOME
linkis_is_here = [[ -d $(LINKIS_HOME)/jars ]] || { printf '%s\n' \
	"LINKIS: THERE IS NO BUILT LINKIS IN $(LINKIS_HOME) (LINKIS_HOME):" \
	'LINKIS: NOTHING IS TRIED WITH A REAL LINKIS.'; exit 0; }

.PHONY: linkis-ready
linkis-ready: ## Make sure that a JDK, Maven, MariaDB, and the jars that Linkis needs are there
	@$(noted) tools/linkis/provide.sh

.PHONY: linkis-jars
linkis-jars: build ## Build and unit-test what Linkis needs to run on Bursar: bin/linkis/*.jar
	@integrations/linkis/build.sh

# For test/systemd, which runs the packages in it.
.PHONY: systemd
systemd: ## Make sure that a small Debian and the programs that boot it are there
	@$(noted) tools/systemd/provide.sh

# For test/cases.
.PHONY: cases-ready
cases-ready: ## Make sure that what the cases call is installed: python3, curl, pgbouncer, uidmap, …
	@$(noted) tools/cases/provide.sh

# For test/engines: what runs in two minutes, and all.
.PHONY: engines-smoke-ready
engines-smoke-ready: ## Make sure that ipykernel and dask are there, from pinned packages of Python
	@$(noted) tools/engines/provide.sh smoke

.PHONY: engines-ready
engines-ready: yarn linkis-ready ## Make sure that Spark, Flink, Ray, Jupyter and others are there (1 GB)
	@$(noted) tools/engines/provide.sh all

# For .ci/new-machine.
.PHONY: new-debian
new-debian: ## Make sure that a new Debian with git, make and gcc is there
	@$(noted) tools/newmachine/provide.sh

.PHONY: provide
provide: modules tools postgres packaging yarn systemd linkis-ready cases-ready engines-smoke-ready new-debian ## Make sure that all of this is there

# --- packages ------------------------------------------------------------------------------------

# In bin/packages, for amd64 and arm64 (ARCHES), with the version that deploy/package/version.sh
# makes of the checkout (PACKAGE_VERSION). The same commit gives the same bytes.
package = @$(if $(PACKAGE_VERSION),VERSION='$(PACKAGE_VERSION)') \
	$(if $(ARCHES),ARCHES='$(ARCHES)') NFPM='$(CURDIR)/$(NFPM)' deploy/package/build.sh

.PHONY: packages
packages: $(NFPM) ## Build all packages
	$(package) deb rpm tar

.PHONY: deb
deb: $(NFPM) ## Build packages for Debian and its like: bin/packages/*.deb
	$(package) deb

.PHONY: rpm
rpm: $(NFPM) ## Build packages for RPM: bin/packages/*.rpm
	$(package) rpm

.PHONY: tar
tar: ## Build archives of what the packages install: bin/packages/*.tar.gz
	$(package) tar

# --- test ----------------------------------------------------------------------------------------

# The packages without a goroutine, a lock or a channel (test/layout reads this list and holds it to
# that, except for proto), those that read the tree, and the one that runs other suites. The race
# detector has nothing to find there and would make them ten times slower; everything else but the
# simulator, whose worlds share nothing and are one goroutine each, runs under it.
pure_names := resource|label|internal/identity|proto|coordinator/ledger|coordinator/placement
pure_names := $(pure_names)|coordinator/(turns|wire)|agent/(policy|tracker)|bench/performance
pure_names := $(pure_names)|internal/(cgroupfs|duration|peercred|quotafile|reload|spelling|yamlfile)
pure_tests := test/layout|test/docs|test/contract|test/acceptance|test/cells
pure = ^$(MODULE)/($(pure_names)|$(pure_tests))(/|$$)

# -count=1: tests run binaries and read files that the test cache does not know. -shuffle: no test
# depends on another. -vet=off: lint vets everything, and more of it.
go_test = $(offline) go test -vet=off -count=1 -shuffle=on

# If the heap may grow to five times the live memory, a compiler and the simulator need a fifth less
# of the processor, and the ledger's tests a third. Tests of servers do not get it, as some measure
# memory.
shipped = -exec 'env -u GOGC'
sim test-sim transcripts test-pure lint-go check-generate: export GOGC := 400
.cache/tools/%: export GOGC := 400
test-race test-commands test-ha test-packages test-soak test-systemd test-yarn: export GOGC := 400

# Nothing below downloads a module.
test-begin test-sim transcripts test-pure test-mutants test-walk test-race test-commands: modules
test-packages test-arches test-systemd test-yarn test-linkis linkis bench-linkis test-ha: modules
test-bench test-peers test-yunikorn test-soak soak callers matrix sim kills check: modules
mutants lint-go check-generate generate: modules

.PHONY: test
test: test-begin test-together test-systemd test-linkis test-peers test-new-machine
test: ## Run every test, of all that begin with test-

# Two lists of targets next to each other, the second one with a prefix, such as a lower priority.
# What the second one printed comes after the output of the first; its parts say at once that they
# begin and end.
beside = mkdir -p bin; exec {progress}>&$${PROGRESS:-1}; export PROGRESS=$$progress; \
	$(3) $(MAKE) $(2) >bin/$@.log 2>&1 & second=$$!; failed=0; \
	$(MAKE) $(1) || failed=1; \
	wait $$second || failed=1; cat bin/$@.log; exit $$failed

# On a new machine half of the time that this takes is waiting for what is downloaded.
.PHONY: test-begin
test-begin: ## Run test-pure; next to it get and build what all others need
	@$(call beside,test-pure,provide,nice -n 19)

# What only computes, BEHIND, runs at the lowest priority next to servers that wait for half of
# their time: it gets what they leave of the processor.
BEHIND ?= test-sim

.PHONY: test-together
test-together: $(BUF) $(GRPCURL) $(CONSUL) $(NFPM) postgres packaging yarn
test-together: ## Run test-walk, -mutants, -most, -bench; next to them what only computes
	@$(call beside,test-walk test-mutants test-most test-bench,$(BEHIND),nice -n 19)

.PHONY: test-most
test-most: $(BUF) $(GRPCURL) $(CONSUL) $(NFPM) postgres packaging yarn
test-most: ## Run test-race, -commands next to test-ha, -packages, -soak, -yarn, -engines
	@$(call beside,test-race test-commands,test-ha test-packages test-soak test-yarn test-engines,)

# Against test/sim/testdata/transcripts.txt.
.PHONY: test-sim
test-sim: ## Run 2,000 seeds of the simulator, compare transcripts; 10,000 kinds that wait
	$(call section,test-sim: 2000 seeds without the race detector)
	@$(timed) $(go_test) -timeout 40m ./test/sim -sim.seeds=2000 -sim.transcripts=check -sim.kinds=10000

# For an intended change of behaviour or of words.
.PHONY: transcripts
transcripts: ## Rewrite test/sim/testdata/transcripts.txt
	@$(go_test) -timeout 15m ./test/sim -run Simulation -sim.seeds=2000 -sim.transcripts=write

.PHONY: test-pure
test-pure: ## Test the packages without a goroutine, and the tree itself
	$(call section,test-pure: packages that hold no goroutine, and the tree itself)
	@packages=$$(go list ./... | grep -E '$(pure)'); $(timed) $(go_test) -timeout 15m $$packages

.PHONY: test-mutants
test-mutants: ## Make small changes in one small package, and see that its tests notice
	$(call section,test-mutants: mutants of label)
	@$(timed) $(offline) go run ./tools/mutants ./label

# Without the race detector, with which it takes a quarter of the steps.
.PHONY: test-walk
test-walk: ## Let processes do whatever they can for 10,000 steps, then Stop an engine
	$(call section,test-walk: nobody but the engine is signalled)
	@$(timed) $(go_test) -timeout 10m ./agent/process -run TestNobodyBut

# A program with the race detector waits for a second before it exits, and tests run many. SQLite
# is translated C code: under the race detector it is ten times slower, and the races to find are
# in its callers. Nor is checked whether somebody writes what is being compressed. What has generic
# code with atomics in it, such as crypto, cannot be left out: the linker keeps one of several equal
# copies, and the detector would report what is no race.
test-race test-yarn: export GORACE := atexit_sleep_ms=0
test-race test-yarn: export CGO_ENABLED := 1
# Code of others is not checked for wrong uses of unsafe pointers, which -race does as well: that
# took a seventh of the processor's time.
computes := modernc.org/... compress/...
race = -race -gcflags='all=-d=checkptr=0' -gcflags='$(MODULE)/...=' \
	$(foreach those,$(computes),-gcflags='$(those)=-race=false')

# Most packages wait for more than half of their time, and so do tests that call t.Parallel: on two
# cores, three packages and four such tests of each keep them busy.
at_once = -p $$(( $$(nproc) * 3 / 2 )) -parallel $$(( $$(nproc) * 2 ))

# Packages are begun in the order of their names here. These take minutes, most of them one test
# after another: they go first, so that none is left alone at the end.
longest = /(coordinator|coordinator/store/(postgres|storetest|sqlite|copying)|agent|agent/process)$$
longest := $(longest)|/test/(chaos|losses|api|callers)$$|/providers/yarn$$

.PHONY: test-race
test-race: $(BUF) $(GRPCURL) $(CONSUL) postgres ## Test all other packages with the race detector
	$(call section,test-race: all other packages with the race detector)
	@packages=$$(go list ./... | grep -Ev '$(pure)|/cmd/bursar$$|/test/(ha|linkis|packages|sim|soak|systemd|yarn)$$'); \
	first=$$(grep -E '$(longest)' <<<"$$packages"); \
	$(timed) $(go_test) $(shipped) $(race) $(at_once) -timeout 20m $$first $$packages

# Without the race detector, with which they take twice as long. What they ask, servers and agents,
# runs with it in other packages, among them test/api and test/chaos.
.PHONY: test-commands
test-commands: ## Run the scripts of bursar's commands
	$(call section,test-commands: what people type)
	@$(timed) $(go_test) $(shipped) $(at_once) -timeout 15m ./cmd/bursar

# Without the race detector: it builds all packages, and installs them in a copy of this machine's
# tree.
.PHONY: test-packages
test-packages: $(NFPM) packaging ## Build, install, upgrade, remove and purge the packages
	$(call section,test-packages: what make packages builds for this architecture)
	@$(timed) $(go_test) $(shipped) -timeout 15m ./test/packages

.PHONY: test-arches
test-arches: $(NFPM) packaging ## Do so with the packages for all architectures
	$(go_test) -timeout 30m ./test/packages -args -arches 'amd64 arm64'

# By itself, and without the race detector: a virtual machine takes both cores.
.PHONY: test-systemd
test-systemd: $(NFPM) systemd ## Run the packages in machines with a systemd
	$(call section,test-systemd: machines with systemd)
	@$(timed) $(go_test) $(shipped) -timeout 15m ./test/systemd

# A ResourceManager and a NodeManager take both cores for seconds while they start, and wait after
# that: test-ha, which measures pauses, comes before it.
.PHONY: test-yarn
test-yarn: yarn ## Test the provider against real YARN clusters, Hadoop 2.7 to 3.5
	$(call section,test-yarn: real ResourceManagers)
	@$(timed) $(go_test) $(shipped) $(race) $(at_once) -timeout 25m ./test/yarn

# By itself: five Java processes on two cores.
.PHONY: test-linkis
test-linkis: linkis-ready linkis-jars ## Run a real LinkisManager with and without the adapter
	$(call section,test-linkis: a real LinkisManager with and without the adapter)
	@$(linkis_is_here); $(timed) $(go_test) $(shipped) -timeout 10m ./test/linkis -run 'TestSmoke|TestWhatFills'

# It waits for most of its time. As root it tries an agent of an ordinary user and one of root.
.PHONY: test-engines
test-engines: build engines-smoke-ready ## Run ipykernel, dask and a daemon under Bursar, and compare figures
	$(call section,test-engines: real engines of two minutes)
	@$(timed) test/engines/run.sh smoke

# test-engines has it in small. ENGINES=regexp of AGENT/SCENE/WAY: test/engines/README.md.
.PHONY: engines
engines: build engines-ready ## Run Spark, Flink, Ray, dask, Jupyter, node and mvn under Bursar (ENGINES=regexp)
	@ENGINES='$(ENGINES)' test/engines/run.sh

# test-linkis has it in small.
.PHONY: linkis
linkis: linkis-ready linkis-jars $(CONSUL) postgres yarn
linkis: ## Run all of a real Linkis on Bursar: engines, three coordinators, two managers, YARN, faults
	@$(linkis_is_here); $(go_test) -timeout 90m -v ./test/linkis -skip TestCycles

.PHONY: bench-linkis
bench-linkis: linkis-ready linkis-jars ## Measure cycles of Linkis with and without the adapter
	@$(linkis_is_here); $(go_test) -timeout 30m -v ./test/linkis -run TestCycles

# Without the race detector: it runs some seventy processes and measures pauses.
.PHONY: test-ha
test-ha: $(CONSUL) postgres ## Run three coordinators and fifty agents through all faults
	$(call section,test-ha: three coordinators and fifty agents with real Consul and PostgreSQL)
	@$(timed) $(go_test) $(shipped) -timeout 15m ./test/ha

# No figure makes it fail, but a suite that does not come to its end does, and a call that fails
# when a leader is lost: ten times, with 1,000 hosts.
.PHONY: test-bench
test-bench: build $(CONSUL) postgres ## Run every suite of make bench with its smallest workload
	$(call section,test-bench: every suite of make bench in short)
	@$(timed) $(offline) go run ./bench -bursar bin/bursar -short

# Without network: modules come from those that are here.
.PHONY: test-new-machine
test-new-machine: modules new-debian ## Run make run in a new Debian with Go, git, make and gcc
	$(call section,test-new-machine: what the README begins with)
	@$(timed) .ci/new-machine run

.PHONY: new-machine
new-machine: new-debian ## Run make run and make test in a new Debian, with network, for an hour
	@.ci/new-machine all

# A module of its own, as each peer is. It plays a peer.
.PHONY: test-peers
test-peers: ## Test what gives orders to peers
	$(call section,test-peers: what peers share)
	@export CGO_ENABLED=1; $(timed) $(offline) go -C bench/peers test -count=1 -shuffle=on -race ./...

# It downloads and compiles the client of Kubernetes. Nomad is compiled by bench-peers alone: its
# module cannot be had without its repository.
.PHONY: test-yunikorn
test-yunikorn: $(GOLANGCI_LINT) ## Check what runs YuniKorn core, and run it in small
	@go -C bench/peers/yunikorn list -deps -test ./... >/dev/null
	@$(offline) go -C bench/peers/yunikorn vet ./...
	@cd bench/peers/yunikorn && $(offline) $(CURDIR)/$(GOLANGCI_LINT) run ./...
	@$(offline) go -C bench/peers/yunikorn test -count=1 -shuffle=on ./...

# It compares what servers take early and late.
.PHONY: test-soak
test-soak: ## Run an agent and a coordinator for 40 s, and for ten simulated days
	$(call section,test-soak: nothing grows)
	@$(timed) $(go_test) $(shipped) -timeout 15m ./test/soak

.PHONY: soak
soak: ## Run them for SOAKTIME=10m and ten simulated days
	$(go_test) -timeout 0 -v ./test/soak -soak.for=$(SOAKTIME)

.PHONY: callers
callers: ## Run JOBS=1000 jobs of an ordinary user at a time
	$(go_test) -timeout 0 -v ./test/callers -callers.jobs=$(JOBS)

# test-yarn has it in small.
.PHONY: matrix
matrix: yarn ## Submit SUBMISSIONS=200 applications to each scheduler of a real YARN
	$(go_test) -timeout 0 -v ./test/yarn -run TestMatrix -yarn.submissions=$(SUBMISSIONS)

.PHONY: sim
sim: ## Run SEEDS=20000 seeds of the simulator
	$(go_test) -timeout 0 -v ./test/sim -run Simulation -sim.seeds=$(SEEDS) -sim.kinds=10000 -sim.crowds=20

.PHONY: kills
kills: postgres ## Kill `bursar dev` KILLS=100 times, and a coordinator a quarter as often
	$(go_test) -timeout 0 -v ./test/chaos -run 'TestKilling.*LosesNothingThatWasAcknowledged' \
		-chaos.kills=$(KILLS)

# As root; test/cases/README.md says how to add one.
.PHONY: cases
cases: build $(CONSUL) postgres cases-ready ## Try faults that were found: none may be back (CASES=regexp)
	@CONSUL='$(CONSUL)' test/cases/run.sh '$(CASES)'

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME=10s
	@.ci/fuzz $(FUZZTIME)

# test-bench has it in small.
.PHONY: failovers
failovers: build $(CONSUL) postgres ## Change leaders 200 times with 10,000 hosts and 200,000 engines
	go run ./bench -bursar bin/bursar -name failover -size full

# A new part is a new target of make: add it to PARTS in .ci/acceptance, and its size here. `make
# test` has each of them in small.
# PARTS='cases engines new-machine sim kills fuzz soak callers failovers matrix linkis test-arches test-yunikorn mutants' runs only
# these; keep the output with tee.
.PHONY: acceptance
acceptance: export SEEDS = 100000
acceptance: export KILLS = 1000
acceptance: export FUZZTIME = 1m
acceptance: export SOAKTIME = 10m
acceptance: export JOBS = 1000
acceptance: export SUBMISSIONS = 200
acceptance: export MUTANTS := $(MUTANTS)
acceptance: ## Run what takes hours, to the end even if something fails (PARTS=…)
	@$(if $(PARTS),PARTS='$(PARTS)') .ci/acceptance

.PHONY: mutants
mutants: ## Make small changes in MUTANTS=packages, and see that their tests notice
	@$(offline) go run ./tools/mutants $(MUTANTS)

.PHONY: bench
bench: build $(CONSUL) $(NODE_EXPORTER) $(TELEGRAF) postgres
# The suite linkis is a test (test/linkis), which makes networks.
bench: ## Measure the budgets of design §17, each as one line (BENCH=regexp of suites)
	go run ./bench -bursar bin/bursar -node-exporter $(NODE_EXPORTER) -telegraf $(TELEGRAF) \
		-name '$(BENCH)'
	@[[ ! linkis =~ $(BENCH) ]] || $(MAKE) bench-linkis

.PHONY: bench-before
bench-before: ## Measure the ledger next to that of another version, in turns (REV=commit)
	@rev=$$(git rev-parse --verify --quiet '$(or $(REV),none)^{commit}') || { \
		echo 'REV=$(REV): want a commit, for example make bench-before REV=02ade4b' >&2; exit 2; }; \
	tree=$$(mktemp -d) && { git worktree add --quiet --detach "$$tree" $$rev || { rm -rf "$$tree"; exit 1; }; } && \
	trap 'git worktree remove --force "$$tree"' EXIT && \
	go build -C "$$tree" -o $(CURDIR)/bin/bench-before ./bench && \
	go run ./bench -before bin/bench-before -name '^ledger$$'

# The schedulers of other projects are modules of their own (bench/peers), so that nothing of theirs
# is among our dependencies. PEERS is a directory with checkouts, for what cannot be downloaded:
# PEERS/yunikorn-core and PEERS/nomad. What was measured is in bin/peers/results.json, what was
# printed in bin/peers/run.txt.
.PHONY: bench-peers
bench-peers: build ## Measure YuniKorn core and Nomad next to ours, in turns (PEERS=DIR: checkouts)
	@bench/peers/build.sh '$(PEERS)'
	@[[ '$(BENCH)' != . ]] || rm -f bin/peers/results.json
	@built=(); for peer in yunikorn nomad; do \
		[[ ! -x bin/peers/$$peer ]] || built+=("-$$peer" "bin/peers/$$peer"); \
	done; \
	go run ./bench -bursar bin/bursar -version '$(VERSION)' -name '^peers-.*($(BENCH))' \
		-results bin/peers/results.json "$${built[@]}" | tee bin/peers/run.txt

.PHONY: performance
performance: ## Write the tables and plots of docs/performance.md from its results.json
	go run ./bench -draw docs/performance.md

# --- check ---------------------------------------------------------------------------------------

.PHONY: lint
lint: lint-shell lint-systemd lint-go lint-proto check-generate ## Check code and contract

.PHONY: lint-shell
lint-shell:
	$(call section,lint: shell scripts parse)
	@git ls-files -z '*.sh' '.ci/*' | xargs -0 -n 1 bash -n

# Units name programs where packages put them. They are checked with another program there, which
# any machine has. verify ends with code 0 even if it warns, so any output counts as a failure.
.PHONY: lint-systemd
lint-systemd: packaging
	$(call section,lint: systemd units)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cp deploy/systemd/bursar-*.* "$$tmp"; \
	for example in deploy/systemd/examples/*.conf; do \
		into=$$(sed -nE '1s,^# /etc/systemd/system/,,p' "$$example"); \
		mkdir -p "$$tmp/$$(dirname "$$into")"; cp "$$example" "$$tmp/$$into"; \
	done; \
	sed -i 's,/usr/bin/bursar,/bin/true,' "$$tmp"/bursar-*.service; \
	said=$$(SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no \
		"$$tmp"/bursar-*.{service,socket,slice} 2>&1 || true); \
	[[ -z $$said ]] || { echo "$$said"; exit 1; }

# Its govet has all that `go vet` has, and more.
.PHONY: lint-go
lint-go: $(GOLANGCI_LINT)
	$(call section,lint: golangci-lint and gofumpt)
	@$(timed) $(offline) $(GOLANGCI_LINT) run ./...
	@cd bench/peers && $(offline) $(CURDIR)/$(GOLANGCI_LINT) run ./...

# The contract is compared with proto/baseline.binpb, the image of the last contract that somebody
# may depend on. A file in the tree works in a shallow or fresh clone, where a tag or an older
# commit may be missing, and a reviewer sees when it changes. The rows of the store are compared in
# the same way: an old file must stay readable.
.PHONY: lint-proto
lint-proto: $(BUF)
	$(call section,lint: buf lint + breaking + format)
	@$(BUF) lint
	@$(BUF) breaking proto --against proto/baseline.binpb
	@$(BUF) format --diff --exit-code

# The generators are those of go.mod, built before: buf would run them without our flags, and
# compile everything once more.
generate = $(offline) go build -o $(1)/bin/ tool && PATH=$(1)/bin:$$PATH $(BUF) generate

.PHONY: check-generate
check-generate: $(BUF) ## Fail when the generated code is stale
	$(call section,check-generate: generated code is fresh)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/committed"; \
	find proto -name '*.pb.go' -o -name '*.connect.go' | tar -cf - -T - | \
		tar -xf - -C "$$tmp/committed"; \
	$(call generate,"$$tmp") -o "$$tmp/fresh"; \
	diff -r "$$tmp/committed" "$$tmp/fresh" || \
		{ echo 'generated code is stale: run make generate'; exit 1; }

# For a change of Go code in a package or two: under three minutes on two cores with a warm cache,
# without the race detector. It does not test packages that import a changed one, and runs no
# suites of whole clusters: make lint and make test do. The packages that changed are those that
# differ from origin/main, or else from the commit before.
suites = ^\./test/(acceptance|callers|chaos|ha|linkis|losses|packages|sim|soak|systemd|yarn)$$

.PHONY: check
check: lint-go ## Check a change in minutes: pure packages, 500 seeds, what changed
	$(call section,check: packages that hold no goroutine)
	@packages=$$(go list ./... | grep -E '$(pure)' | grep -v '/test/acceptance$$'); \
	$(go_test) $$packages
	$(call section,check: 500 seeds)
	@$(go_test) ./test/sim -run Simulation -sim.seeds=500 -sim.transcripts=check
	$(call section,check: the packages that changed)
	@changed=$$(.ci/changed | grep -Ev '$(suites)' || true); \
	packages=$$([[ -z $$changed ]] || go list $$changed | grep -Ev '$(pure)' || true); \
	if [[ -n $$packages ]]; then $(go_test) -timeout 10m $$packages; else echo none; fi

# --- change --------------------------------------------------------------------------------------

.PHONY: generate
generate: $(BUF) ## Generate the code of proto/
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; $(call generate,"$$tmp")

# At a release, with the commit in test/ha/before_test.go, which says how.
.PHONY: contract-baseline
contract-baseline: $(BUF) ## Make today's contract the one that must not be broken
	$(BUF) build proto --exclude-source-info -o proto/baseline.binpb

.PHONY: fmt
fmt: $(GOLANGCI_LINT) $(BUF) ## Format Go and proto files
	$(GOLANGCI_LINT) fmt
	$(BUF) format --write

.PHONY: clean
clean: ## Remove what was built, the tools too
	rm -rf bin .cache
