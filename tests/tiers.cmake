# SPDX-License-Identifier: Apache-2.0
# What runs when. Every test has a kind and a tier as labels; a tier runs those before it, too.
#   quick    make quick: a minute of CPU time, without CUDA kernels
#   gate     make test
#   nightly  make nightly: studies, browsers, and all tests with more rounds, other seeds and other builds
#   gpu      make test-gpu
# Kinds are unit (also run with sanitizers), fuzz, lint, tool (scripts around the built tree) and gpu. A kind has a tier, and
# tests that are longer or shorter than their kind are listed here.
set(WEFT_TIER_unit quick)
set(WEFT_TIER_fuzz gate)
set(WEFT_TIER_lint gate)
set(WEFT_TIER_tool gate)
set(WEFT_TIER_gpu gpu)
set(WEFT_TESTS_quick format shellcheck json spdx environment openmp deps clocks tiers layers operations cli)
set(WEFT_TESTS_gate test_energy test_driver_faults)
set(WEFT_TESTS_nightly fuzz_run site documents_all hopper_backward_emulated_more hopper_attention_emulated_fp16 hopper_bias_emulated_all pages pages_access launches recommend_all reproduce_sawtooth reproduce_cutile reproduce_tile-scheduling reproduce_spark-gemm
    reproduce_numa reproduce_h200 reproduce_context-parallel cli_progress_all faults_verbs_all faults_api_all faults_kills_all faults_power_all driver_faults_all mpi_dist_1_large mpi_dist_2_large mpi_dist_3_large mpi_dist_4_large mpi_dist_5_large mpi_dist_6_large mpi_dist_7_large
    mpi_dist_8_large mpi_failures_KILL_all-gather_forward_0 mpi_failures_KILL_heads_backward_9 mpi_failures_STOP_ring_forward_1
    mpi_failures_STOP_ring_backward_5 mpi_failures_STOP_ring_k_2 mpi_products_1_large mpi_products_2_large mpi_products_3_large
    mpi_products_4_large mpi_products_5_large mpi_products_6_large mpi_products_7_large mpi_products_8_large package_dist package_sbom package_wheel package_wheel_cross package_deb package_reproducible)

# With the address and undefined-behaviour sanitizers only at night: long comparisons of searches and prices with whole
# simulations, whose code the tests of the simulator and of searches run with sanitizers in the gate.
set(WEFT_TESTS_sanitize_nightly test_recommend test_priced test_driver_faults)

# Also run with the thread sanitizer.
set(WEFT_TESTS_threads test_lives test_cpu test_grouped test_kv_cache test_attention_features test_backward test_decode test_stealing test_driver test_plan_cuda test_plan test_tune test_dist test_products test_failures)

# The longest, which start first: a core that waits for the last test is idle.
set(WEFT_TESTS_first hopper_attention_emulated cppcheck wheel cli_plan python readme tuning_faults hopper_gemm_emulated study_emulated test_cpu
    fuzz_options)

# Seconds after which a test hangs: far more than any takes on a slow and busy machine. No test has another limit of time.
set(WEFT_TEST_TIMEOUT 7200)

# What the tests of a tier are built from.
foreach(tier quick gate nightly gpu threads)
  add_custom_target(${tier}_tests)
endforeach()

# Labels a test that add_test() has named. Exit status 77: skipped, but for fuzzers, whose crash it is.
function(weft_label_test name kind)
  set(tier ${WEFT_TIER_${kind}})
  foreach(other quick gate nightly)
    if(name IN_LIST WEFT_TESTS_${other})
      set(tier ${other})
    endif()
  endforeach()
  if(WEFT_SANITIZE AND name IN_LIST WEFT_TESTS_sanitize_nightly)
    set(tier nightly)
  endif()
  set(labels ${kind})
  if(NOT tier STREQUAL kind)
    list(APPEND labels ${tier})
  endif()
  if(name IN_LIST WEFT_TESTS_threads)
    list(APPEND labels threads)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${WEFT_TEST_TIMEOUT})
  if(name IN_LIST WEFT_TESTS_first)
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
  if(NOT kind STREQUAL fuzz)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  if(TARGET ${name})
    foreach(label ${labels})
      if(TARGET ${label}_tests)
        add_dependencies(${label}_tests ${name})
      endif()
    endforeach()
  endif()
endfunction()
