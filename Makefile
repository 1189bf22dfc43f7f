# Names only: what each does is in scripts/ and in the crates.

# Cargo from rustup may be missing in the PATH of a fresh shell.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: build agent fleet peer drill dist dist-check dist-test dist-guest dist-systemd linux netstack simulator netstack-test arm64 matrix demo fleet-demo test lint bench experiments experiments-virtual grid groups situations predictions fuzz clean help

build: ## Build the release programs: target/release/transom, and transom-lab beside it
	scripts/prerequisites.sh build
	cargo build --release --locked -p transom

agent: ## Build transom-agent beside it (docs/agent.md)
	scripts/prerequisites.sh build
	cargo build --release --locked -p transom-agent

fleet: ## Build transom-fleet beside it (docs/fleet.md)
	scripts/prerequisites.sh build
	cargo build --release --locked -p transom-fleet

peer: ## Build transom-peer beside it (carries Zenoh: minutes; docs/peer.md)
	scripts/prerequisites.sh build
	cargo build --release --locked -p transom-peer-daemon

drill: ## Build transom-drill beside it (carries Zenoh: minutes; docs/drill.md)
	scripts/prerequisites.sh build
	cargo build --release --locked -p transom-drill

dist: ## Packages, tarballs and checksums for amd64 and arm64: target/packages (docs/install.md)
	scripts/prerequisites.sh build dist
	scripts/dist.sh

dist-check: ## Build once more in another folder: the same bytes
	scripts/prerequisites.sh build dist
	scripts/dist-check.sh

dist-test: ## Install the packages on clean Debian and Ubuntu roots, run them there, remove them (with sudo)
	scripts/prerequisites.sh dist-test
	for suite in bullseye bookworm trixie jammy noble; do scripts/dist-test.sh $$suite || exit 1; done

dist-guest: ## Run the arm64 programs of the packages on a small machine with Debian's arm64 kernel, in QEMU
	scripts/prerequisites.sh guest arm64
	scripts/dist-guest.sh arm64

dist-systemd: ## The packages under systemd: Debian 12 booted in QEMU, upgraded, rebooted (with sudo, about 5 minutes)
	scripts/prerequisites.sh dist-systemd
	scripts/dist-systemd.sh bookworm

linux: ## Build liblinux.a: Linux's network stack as a library, of 6.12 and 6.1 (minutes; docs/library.md)
	scripts/prerequisites.sh build linux
	scripts/linux-library.sh
	scripts/linux-library.sh --if-possible --series 6.1

netstack: linux ## Build transom-netstack beside transom: programs on that library (docs/run.md)
	cargo build --release --locked -p transom-library-stack

simulator: linux ## Build transom-simulate beside transom: Linux's TCP in virtual time (docs/simulate.md)
	cargo build --release --locked -p transom-simulator

netstack-test: linux ## Test it: the library by itself, and against the host's stack (with sudo)
	scripts/netstack.sh

arm64: ## Build all for arm64, statically, and test it under qemu-user and on an arm64 kernel (docs/library.md)
	scripts/prerequisites.sh build linux arm64
	scripts/linux-library.sh
	scripts/linux-library.sh aarch64
	scripts/netstack.sh aarch64

matrix: ## What depends on the kernel on every kernel of scripts/matrix/guests.toml, under QEMU: docs/compatibility.md (an hour; goes on where it was)
	scripts/prerequisites.sh build test arm64 guest
	scripts/gki-kernel.sh 4k
	scripts/gki-kernel.sh 16k
	scripts/matrix/run.py
	scripts/matrix/page.py >docs/compatibility.md

demo: ## Build, then two phones on emulated air: recorded, explained, drawn
	scripts/prerequisites.sh build demo
	cargo build --release --locked -p transom
	scripts/demo.sh

fleet-demo: ## Build, then a fleet of 24 hosts, an S3 server, Prometheus, a customer whose path loses, and a policy that harms (docs/fleet-demo.md)
	scripts/prerequisites.sh build fleet-demo
	cargo build --release --locked -p transom -p transom-agent -p transom-fleet
	scripts/fleet-demo/run.py

test: ## Lint, then every test (the kernel's with sudo)
	scripts/prerequisites.sh build test lint
	scripts/linux-library.sh --if-possible
	scripts/linux-library.sh --if-possible --series 6.1
	scripts/lint.sh
	scripts/test.sh
	scripts/matrix/ci.sh

lint: ## Formatting and clippy
	scripts/prerequisites.sh build lint
	scripts/lint.sh

bench: ## Measure what recording costs (docs/benchmarks.md)
	scripts/prerequisites.sh build bench
	scripts/bench.sh

experiments: linux ## The papers' figures and tables on the testbed (docs/results.md), about four hours
	scripts/prerequisites.sh build demo
	cargo build --release --locked -p transom -p transom-peer-daemon -p transom-library-stack
	scripts/experiments.sh

experiments-virtual: simulator ## The same in virtual time, without root (docs/virtual.md), about 3 minutes with the build
	cargo build --release --locked -p transom
	scripts/experiments.sh --virtual

grid: simulator ## Congestion controls at points drawn from a space, in virtual time (docs/grid-results.md, docs/guard-results.md)
	cargo build --release --locked -p transom
	target/release/transom lab grid experiments/grid/senders.toml --half report --markdown docs/grid-results.md
	target/release/transom lab grid experiments/grid/guard.toml --half report --markdown docs/guard-results.md

groups: simulator ## Groups of terminals at drawn points, in virtual time (docs/groups.md), about 10 minutes
	python3 bench/groups.py --page --half report --points 48 --seeds 4 --worst 8 > docs/groups.md

situations: ## Connections with a known cause, and how often the verdict names it (docs/explain.md), 13 minutes
	scripts/prerequisites.sh build demo
	cargo build --release --locked -p transom -p transom-situations
	scripts/situations.sh

predictions: simulator ## Pairs of settings run for real, beside what whatif predicts (docs/whatif.md), ten minutes
	scripts/prerequisites.sh build demo
	cargo build --release --locked -p transom -p transom-situations
	scripts/predictions.sh

fuzz: ## The trace decoder on 20,000 damaged files (TRANSOM_FUZZ_CASES), and every property with values drawn anew
	scripts/prerequisites.sh build
	scripts/fuzz.sh

clean: ## Remove all that was built
	cargo clean

help: ## This list
	@sed -n 's/^\([a-z0-9-]*\):.* ## /\1\t/p' Makefile
