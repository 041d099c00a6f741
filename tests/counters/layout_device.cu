/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of CUPTI's structures against CUPTI's own, where its headers are: compiled, never run. */
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "counters/cupti.h"

#define SIZE(ours, last, theirs) static_assert(WEFT_CUPTI_SIZE(ours, last) == theirs##_STRUCT_SIZE, #ours)
#define SAME(ours, field, theirs, their_field)                                                                             \
    static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                                                \
                      sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field),                                    \
                  #ours "." #field)

SIZE(weft_cupti_initialize, reserved, CUpti_Profiler_Initialize_Params);
SIZE(weft_cupti_device_supported, api, CUpti_Profiler_DeviceSupported_Params);
SAME(weft_cupti_device_supported, device, CUpti_Profiler_DeviceSupported_Params, cuDevice);
SAME(weft_cupti_device_supported, supported, CUpti_Profiler_DeviceSupported_Params, isSupported);
SAME(weft_cupti_device_supported, architecture, CUpti_Profiler_DeviceSupported_Params, architecture);
SAME(weft_cupti_device_supported, vgpu, CUpti_Profiler_DeviceSupported_Params, vGpu);
SAME(weft_cupti_device_supported, wsl, CUpti_Profiler_DeviceSupported_Params, wsl);
SIZE(weft_cupti_chip_name, name, CUpti_Device_GetChipName_Params);
SIZE(weft_cupti_availability, image, CUpti_Profiler_GetCounterAvailability_Params);
SAME(weft_cupti_availability, bytes, CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize);
SIZE(weft_cupti_host_initialize, host, CUpti_Profiler_Host_Initialize_Params);
SAME(weft_cupti_host_initialize, profiler, CUpti_Profiler_Host_Initialize_Params, profilerType);
SAME(weft_cupti_host_initialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
SIZE(weft_cupti_host_deinitialize, host, CUpti_Profiler_Host_Deinitialize_Params);
SIZE(weft_cupti_add_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params);
SAME(weft_cupti_add_metrics, metrics, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
SIZE(weft_cupti_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params);
SIZE(weft_cupti_config_image, image, CUpti_Profiler_Host_GetConfigImage_Params);
SAME(weft_cupti_config_image, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
SIZE(weft_cupti_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params);
SAME(weft_cupti_passes, config, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
SIZE(weft_cupti_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
SAME(weft_cupti_evaluate, data, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
SAME(weft_cupti_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
SAME(weft_cupti_evaluate, metrics, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
SIZE(weft_cupti_enable, profiler, CUpti_RangeProfiler_Enable_Params);
SAME(weft_cupti_enable, context, CUpti_RangeProfiler_Enable_Params, ctx);
SIZE(weft_cupti_range, profiler, CUpti_RangeProfiler_Disable_Params);
SIZE(weft_cupti_range, profiler, CUpti_RangeProfiler_Start_Params);
SIZE(weft_cupti_range, profiler, CUpti_RangeProfiler_PopRange_Params);
SIZE(weft_cupti_data_size, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params);
SAME(weft_cupti_data_size, metrics, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
SAME(weft_cupti_data_size, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
SAME(weft_cupti_data_size, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
SIZE(weft_cupti_data_initialize, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
SIZE(weft_cupti_set_config, target_nesting, CUpti_RangeProfiler_SetConfig_Params);
SAME(weft_cupti_set_config, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
SAME(weft_cupti_set_config, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
SAME(weft_cupti_set_config, range, CUpti_RangeProfiler_SetConfig_Params, range);
SAME(weft_cupti_set_config, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
SAME(weft_cupti_set_config, ranges_per_pass, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
SAME(weft_cupti_set_config, nesting_levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
SAME(weft_cupti_set_config, least_nesting, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
SAME(weft_cupti_set_config, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
SIZE(weft_cupti_stop, all_submitted, CUpti_RangeProfiler_Stop_Params);
SAME(weft_cupti_stop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
SIZE(weft_cupti_push, name, CUpti_RangeProfiler_PushRange_Params);
SIZE(weft_cupti_decode, dropped, CUpti_RangeProfiler_DecodeData_Params);

static_assert((int)WEFT_CUPTI_USER_RANGE == (int)CUPTI_UserRange, "ranges");
static_assert((int)WEFT_CUPTI_USER_REPLAY == (int)CUPTI_UserReplay, "replays");
static_assert((int)WEFT_CUPTI_SUPPORTED == (int)CUPTI_PROFILER_CONFIGURATION_SUPPORTED, "levels");
static_assert((int)WEFT_CUPTI_INSUFFICIENT_PRIVILEGES == (int)CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "results");
static_assert((int)CUPTI_PROFILER_TYPE_RANGE_PROFILER == 0 && (int)CUPTI_PROFILER_RANGE_PROFILING == 0, "kinds");
