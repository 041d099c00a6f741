# A thin front for CMake. `make demo` and `make test` are all the set-up there is.
#   make          build                    make bench     time everything, beside peers
#   make demo     build and show           make install   PREFIX=/usr/local
#   make test     build and test           make docs      the API pages, the picture
#   make test-gpu the tests that need one  make fuzz      SECONDS=600
#   make test-threads  the thread sanitizer  make lint format clean
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
SECONDS ?= 600
DEVELOPER = -DWEFT_TESTS=ON -DWEFT_WERROR=ON
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

# GPU code is compiled where a GPU is visible; CUDA=1 and CUDA=0 decide otherwise.
CUDA ?= AUTO

MAKEFLAGS += --no-print-directory

.PHONY: all demo test test-threads test-gpu bench install docs fuzz lint format clean deps-build deps-test configure-test

all: deps-build
	cmake -S . -B $(BUILD)/release -DCMAKE_BUILD_TYPE=Release -DWEFT_CUDA=$(CUDA)
	cmake --build $(BUILD)/release -j $(JOBS)

demo: all
	scripts/demo.sh $(BUILD)

deps-build deps-test:
	@scripts/deps.sh $(subst deps-,,$@)

# Every CUDA kernel is compiled, for two chips; the library itself is for all of them.
configure-test: deps-test
	cmake -S . -B $(BUILD)/test $(DEVELOPER) -DWEFT_CUDA=ON "-DWEFT_CUDA_CHIPS=80;90"
	cmake -S . -B $(BUILD)/sanitize -DCMAKE_C_COMPILER=clang $(DEVELOPER) -DWEFT_SANITIZE=ON -DWEFT_CUDA=OFF

# Everything, built by gcc; then the unit tests and the fuzzers, built by clang with sanitizers.
test: configure-test
	cmake --build $(BUILD)/test -j $(JOBS)
	cd $(BUILD)/test && $(CTEST) -LE gpu
	cmake --build $(BUILD)/sanitize -j $(JOBS)
	cd $(BUILD)/sanitize && $(CTEST) -L 'unit|fuzz'

# Threads, built by clang with the thread sanitizer. Archer tells it what OpenMP's barriers order.
test-threads: deps-test
	cmake -S . -B $(BUILD)/threads -DCMAKE_C_COMPILER=clang $(DEVELOPER) -DWEFT_SANITIZE_THREADS=ON -DWEFT_CUDA=OFF
	cmake --build $(BUILD)/threads -j $(JOBS) --target test_cpu test_decode test_stealing test_driver test_plan_cuda test_plan test_tune
	cd $(BUILD)/threads && TSAN_OPTIONS=ignore_noninstrumented_modules=1 \
	  OMP_TOOL_LIBRARIES=$$(ls /usr/lib/llvm-*/lib/libarcher.so | tail -1) $(CTEST) -R '^(test_cpu|test_decode|test_stealing|test_driver|test_plan_cuda|test_plan|test_tune)$$'

test-gpu: configure-test
	cmake --build $(BUILD)/test -j $(JOBS) --target all gpu_tests
	scripts/test-gpu.sh $(BUILD)/test

bench: all
	for bench in $(BUILD)/release/bench/bench_*; do [ ! -x $$bench ] || [ -d $$bench ] || $$bench || exit 1; done
	scripts/bench-cpu.sh $(BUILD)/release

install: all
	cmake --install $(BUILD)/release --prefix $(PREFIX)

docs: all
	@scripts/deps.sh docs
	scripts/picture.sh $(BUILD)/release/weft docs/sawtooth.svg
	scripts/chart.py docs/results/peers/h200.csv docs/h200.svg
	scripts/architecture.py docs/architecture.svg
	doxygen docs/Doxyfile
	@echo "open $(BUILD)/docs/html/index.html"

fuzz: configure-test
	cmake --build $(BUILD)/sanitize -j $(JOBS)
	scripts/fuzz.sh $(BUILD)/sanitize/tests $(SECONDS)

lint: configure-test
	cmake --build $(BUILD)/test -j $(JOBS)
	cd $(BUILD)/test && $(CTEST) -L lint

format: deps-test
	scripts/sources.sh | xargs clang-format -i

clean:
	rm -rf $(BUILD)
