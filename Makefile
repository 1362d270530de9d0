# sheaf. The targets that matter first: make run, make test.

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
# Flags for `make run`, for example: make run ARGS='-p 11301 -V'
ARGS    ?=
# How long `make fuzz` gives each target.
FUZZTIME ?= 30s

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)

# What `make perf` compares, and further flags, for example:
# make perf PERF='cycle handoff' PERFFLAGS='--rounds 3 --html report.html'
PERF      ?= cycle-8x64 cycle-64x1 cycle-1x1 cycle-16k handoff fanin manytubes-100k idle backlog-1m backlog-10m
PERFFLAGS ?=
# The servers. Gearman's scenarios have others, so they are compared in a run of
# their own: make perf PERF=gearman
ifneq ($(filter gearman%,$(PERF)),)
PERFWITH := gearmand
PERFSERVERS = --server 'sheafd=./bin/sheafd -l 127.0.0.1 -p {port2} --gearman 127.0.0.1:{port}' \
	--server 'gearmand=gearmand -L 127.0.0.1 -p {port} -l stderr -P {dir}/pid'
else
PERFWITH := beanstalkd
PERFSERVERS = --server 'sheafd=./bin/sheafd -l 127.0.0.1 -p {port}' \
	--server 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port}'
endif

.PHONY: run build install test test-crash can-race bench perf fuzz lint clean

run: build ## build and serve on port 11300
	./bin/sheafd $(ARGS)

build: ## build bin/sheafd and bin/sheafperf
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/sheafd ./cmd/sheafd
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/sheafperf ./cmd/sheafperf

install: build ## install the server and its systemd units
	install -D -m 755 bin/sheafd $(DESTDIR)$(PREFIX)/bin/sheafd
	sed 's,/usr/local/bin/,$(PREFIX)/bin/,' cmd/sheafd/sheafd.service >bin/sheafd.service
	install -D -m 644 bin/sheafd.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sheafd.service
	install -D -m 644 cmd/sheafd/sheafd.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/sheafd.socket

# The race detector makes the code about ten times slower and slows goroutines
# at odd places, which is what the tests of concurrency are for. What counts
# allocations or system calls skips itself under it, hence the second run.
test: can-race ## run all tests
	$(GO) test -race -timeout 15m ./...
	$(GO) test -run 'Alloc|Cost' ./...

# Each round loads a server with all that changes jobs, kills it, and looks what
# the next one has.
test-crash: ## kill the server 100 times
	$(GO) test ./cmd/sheafd -run '^TestCrash(Gearman)?$$' -crash.rounds 100 -timeout 60m -v

# The race detector is C. go test says less plainly what is missing.
can-race:
	@[ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC | cut -d' ' -f1) >/dev/null || { \
		echo "make test: Go's race detector needs cgo and a C compiler; install gcc and libc6-dev, and leave CGO_ENABLED alone" >&2; \
		exit 1; \
	}

bench: ## run all benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Standard output is the report alone. Ten million waiting jobs take about 4 GiB
# of memory, and all of it about half an hour.
perf: ## compare sheafd with beanstalkd or gearmand, as Markdown on standard output
	@command -v $(PERFWITH) >/dev/null || { echo "make perf: $(PERFWITH) is not in PATH; install it to compare with" >&2; exit 1; }
	@$(MAKE) -s build >&2
	@./bin/sheafperf compare --markdown $(PERFSERVERS) $(PERFFLAGS) $(PERF)

# A target at a time, since that is all that go test -fuzz does. Minimising is
# bounded by runs: by time, its default, it stalls on slow targets.
fuzz: ## fuzz each target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$pkg); \
		for target in $$(echo "$$targets" | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg; \
		done; \
	done

lint: ## gofmt, go vet, staticcheck
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt -w these:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff

clean: ## remove what was built
	rm -rf bin
