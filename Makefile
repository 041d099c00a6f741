# SPDX-License-Identifier: Apache-2.0
# A thin front for CMake. `make demo` and `make test` are all the set-up there is.
#   make          build                    make bench     time everything, beside peers
#   make demo     build and show           make install   PREFIX=/usr/local
#   make quick    test for a minute        make docs      the site, the pictures
#   make test     the gate                 make fuzz      SECONDS=600
#   make nightly  all that needs no GPU    make test-gpu  the tests that need one
#   make dist     the source tarball      make wheel    a Python wheel that needs nothing but glibc
#   make lint format clean                make deb      Debian packages: all three in build/packages
#   make interface  the list of what programs are compiled against
# make nightly is make test, make fuzz and these:
#   make test-all       every test, on kernels for all chips
#   make test-sanitize  the unit tests with sanitizers, searching for leaks
#   make test-threads   the thread sanitizer
#   make test-cross     the other architecture
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
SECONDS ?= 600
SEED ?= $(shell date +%Y%m%d)
ROUNDS ?= 400
DEVELOPER = -DWEFT_TESTS=ON -DWEFT_WERROR=ON
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

# GPU code is compiled where a GPU is visible; CUDA=1 and CUDA=0 decide otherwise.
CUDA ?= AUTO

MAKEFLAGS += --no-print-directory

.PHONY: all demo quick test nightly test-all test-sanitize test-threads test-cross test-gpu bench install dist wheel deb docs fuzz lint format clean \
        interface deps-build deps-test deps-cross deps-docs deps-wheel deps-deb configure-test configure-sanitize

all: deps-build
	cmake -S . -B $(BUILD)/release -DCMAKE_BUILD_TYPE=Release -DWEFT_CUDA=$(CUDA)
	cmake --build $(BUILD)/release -j $(JOBS)

demo: all
	scripts/demo.sh $(BUILD)

deps-build deps-test deps-cross deps-docs deps-wheel deps-deb:
	@scripts/deps.sh $(subst deps-,,$@)

# Without CUDA kernels, which take minutes to compile.
quick: deps-test
	cmake -S . -B $(BUILD)/quick $(DEVELOPER) -DWEFT_CUDA=OFF
	cmake --build $(BUILD)/quick -j $(JOBS) --target quick_tests
	cd $(BUILD)/quick && WEFT_TEST_ROUNDS=50 $(CTEST) -L '^quick$$'

# The gate compiles CUDA kernels for one chip, and of every family and form a variant or two: the others differ by numbers, and
# make nightly compiles them all and looks for spills. It emulates all variants for bf16, and of fp16 and TF32, which differ by
# an instruction, a few.
GATE = -DWEFT_CUDA=ON -DWEFT_CUDA_CHIPS=90 -DWEFT_CUDA_ONLY='decode_bf16_d128_8|mla_bf16|_(bf16|tf32)_(d64_(64x64|64x128|192x64|192x128)?|.._128x128|kk_128x160|.k_128x96_transposed)_' \
       -DWEFT_EMULATED_ONLY='_bf16_|_(fp16|tf32)_(d64_64x64__study|(d64|d256)__hopper(_ragged)?$$|kk_(128x|64x64__portable))'
configure-test: deps-test
	cmake -S . -B $(BUILD)/test $(DEVELOPER) $(GATE)

configure-sanitize: deps-test
	cmake -S . -B $(BUILD)/sanitize -DCMAKE_C_COMPILER=clang $(DEVELOPER) -DWEFT_SANITIZE=ON -DWEFT_CUDA=OFF

# Built by gcc; then the unit tests and the fuzzers, built by clang with sanitizers, on other random cases. Leaks are searched
# for at night: that takes three seconds of every process.
test: configure-test configure-sanitize
	cmake --build $(BUILD)/test -j $(JOBS)
	cd $(BUILD)/test && $(CTEST) -L '^(quick|gate)$$'
	cmake --build $(BUILD)/sanitize -j $(JOBS) --target quick_tests gate_tests
	cd $(BUILD)/sanitize && ASAN_OPTIONS=detect_leaks=0 WEFT_TEST_SEED=1 WEFT_TEST_ROUNDS=12 $(CTEST) -L '^(quick|gate)$$'

# Everything that needs no GPU: more random cases than the gate has, and those of today's date.
NIGHTLY = WEFT_TEST_SEED=$(SEED) WEFT_TEST_ROUNDS=$(ROUNDS)
nightly: test test-threads test-cross test-all test-sanitize fuzz

# All tests; CUDA kernels of all types are compiled for all chips.
test-all: deps-test deps-deb deps-docs
	cmake -S . -B $(BUILD)/nightly $(DEVELOPER) -DWEFT_CUDA=ON
	cmake --build $(BUILD)/nightly -j $(JOBS)
	cd $(BUILD)/nightly && $(NIGHTLY) $(CTEST) -LE gpu

# The unit tests once more, with sanitizers and with the search for leaks.
test-sanitize: configure-sanitize
	cmake --build $(BUILD)/sanitize -j $(JOBS) --target quick_tests gate_tests nightly_tests
	cd $(BUILD)/sanitize && $(NIGHTLY) $(CTEST) -L unit

# Threads, built by clang with the thread sanitizer. Archer tells it what OpenMP's barriers order.
test-threads: deps-test
	cmake -S . -B $(BUILD)/threads -DCMAKE_C_COMPILER=clang $(DEVELOPER) -DWEFT_SANITIZE_THREADS=ON -DWEFT_CUDA=OFF
	cmake --build $(BUILD)/threads -j $(JOBS) --target threads_tests
	cd $(BUILD)/threads && TSAN_OPTIONS=ignore_noninstrumented_modules=1 \
	  OMP_TOOL_LIBRARIES=$$(ls /usr/lib/llvm-*/lib/libarcher.so | tail -1) $(CTEST) -L threads

# The other of x86-64 and aarch64, under qemu-user.
test-cross: deps-test deps-cross
	cmake -S . -B $(BUILD)/quick $(DEVELOPER) -DWEFT_CUDA=OFF
	cmake -S . -B $(BUILD)/cross $(DEVELOPER) -DWEFT_CUDA=OFF -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake
	cmake --build $(BUILD)/quick -j $(JOBS) --target test_kernels test_cpu
	cmake --build $(BUILD)/cross -j $(JOBS) --target quick_tests
	scripts/test-cross.sh $(BUILD)/quick $(BUILD)/cross

# On all variants of the CUDA kernels; CHIPS=90 compiles the portable ones for that chip only.
test-gpu: deps-test
	cmake -S . -B $(BUILD)/gpu $(DEVELOPER) -DWEFT_CUDA=ON -DWEFT_CUDA_CHIPS=$(CHIPS)
	cmake --build $(BUILD)/gpu -j $(JOBS) --target all gpu_tests
	scripts/test-gpu.sh $(BUILD)/gpu

bench: all
	for bench in $(BUILD)/release/bench/bench_*; do [ ! -x $$bench ] || [ -d $$bench ] || $$bench || exit 1; done
	scripts/bench-cpu.sh $(BUILD)/release

install: all
	cmake --install $(BUILD)/release --prefix $(PREFIX)
	@scripts/install-hint.sh $(PREFIX)

# Packages, described in docs/packaging.md. Each is built from the tarball.
dist:
	@scripts/sbom.py "$$(scripts/dist.sh $(BUILD)/packages)"

# CROSS=1: for the other architecture.
wheel: deps-wheel $(if $(CROSS),deps-cross)
	scripts/wheel.sh $(BUILD)/packages $(CUDA) $(CROSS)

deb: deps-deb
	scripts/deb.sh $(BUILD)/packages $(CUDA)

docs: all deps-docs
	scripts/picture.sh $(BUILD)/release/weft docs/sawtooth.svg
	scripts/machines.sh $(BUILD)/release/weft docs/machines.svg
	scripts/chart.py docs/results/peers/h200.csv docs/h200.svg
	scripts/architecture.py tests/lint/layers.txt docs/architecture.svg
	scripts/gallery.sh $(BUILD)/release/weft docs/gallery.md docs/gallery
	scripts/site.py $(BUILD)/docs
	@echo "open $(BUILD)/docs/html/index.html"

# Without sanitizers, which is several times as fast and takes the bulk of the inputs; then with them.
fuzz: configure-sanitize
	cmake -S . -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=clang $(DEVELOPER) -DWEFT_FUZZ=ON -DWEFT_CUDA=OFF
	cmake --build $(BUILD)/fuzz -j $(JOBS) --target fuzzers
	scripts/fuzz.sh $(BUILD)/fuzz/tests $(SECONDS)
	cmake --build $(BUILD)/sanitize -j $(JOBS) --target fuzzers
	scripts/fuzz.sh $(BUILD)/sanitize/tests $(SECONDS)

lint: configure-test
	cmake --build $(BUILD)/test -j $(JOBS)
	cd $(BUILD)/test && $(CTEST) -L lint

# With the debug information that the list is read from.
interface: deps-test
	cmake -S . -B $(BUILD)/quick $(DEVELOPER) -DWEFT_CUDA=OFF
	cmake --build $(BUILD)/quick -j $(JOBS) --target weft_shared
	scripts/interface.py write $(BUILD)/quick/libweft.so

format: deps-test
	scripts/sources.sh | xargs clang-format -i

clean:
	rm -rf $(BUILD)
