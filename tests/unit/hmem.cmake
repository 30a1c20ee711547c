# SPDX-License-Identifier: BSD-2-Clause
# Memory interfaces over the emulated drivers, and our text of their declarations against the vendors'.

# Over the emulated ROCr (tests/drivers/accel/rocr): a process for each machine.
hmreg_program(test_hmem_rocr test_hmem_rocr.c test_hmem_rocr_calls.c test_hmem_rocr_kinds.c
  test_hmem_rocr_other.c ${PROJECT_SOURCE_DIR}/tests/hmem/make_rocr.c)
target_link_libraries(test_hmem_rocr PRIVATE PkgConfig::CMOCKA ${CMAKE_DL_LIBS})
add_dependencies(test_hmem_rocr emu_rocr emu_rocr_old)
function(hmreg_rocr_test group settings)
  set(folder ${PROJECT_BINARY_DIR}/tests/drivers/accel/rocr)
  if(group STREQUAL old)
    string(APPEND folder /old)
  endif()
  hmreg_add_test(test_hmem_rocr_${group} unit $<TARGET_FILE:test_hmem_rocr> ${group})
  set_tests_properties(test_hmem_rocr_${group} PROPERTIES
    ENVIRONMENT "LD_LIBRARY_PATH=${folder};EMU_ROCR=${settings}")
endfunction()
hmreg_rocr_test(main "")
hmreg_rocr_test(call "")
hmreg_rocr_test(start "")
hmreg_rocr_test(old "")
hmreg_rocr_test(nodmabuf dmabuf=0)
hmreg_rocr_test(noexport noexport=2)
hmreg_rocr_test(untold ext=8)
hmreg_rocr_test(unnoticed notice=0)
hmreg_rocr_test(noticed "")
hmreg_rocr_test(nobar bar=0,peer=0,xnack=1)

# The hand-written declarations against the vendor's, where those are installed.
find_path(HMREG_HSA_INCLUDE hsa/hsa_ext_amd.h)
if(HMREG_HSA_INCLUDE)
  add_library(abi_rocr OBJECT abi_rocr.c)
  target_link_libraries(abi_rocr PRIVATE hm_build)
  target_include_directories(abi_rocr SYSTEM PRIVATE ${HMREG_HSA_INCLUDE})
endif()

# Over the emulated accelerator drivers, which are loaded by name: each program with a driver's folder.
function(hmem_unit_test name interface folder)
  hmreg_add_test(${name} unit $<TARGET_FILE:test_hmem_${interface}> ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/drivers/accel/${folder}")
endfunction()
foreach(interface neuron synapseai)
  hmreg_program(test_hmem_${interface} test_hmem_${interface}.c ../hmem/make_${interface}.c)
  target_link_libraries(test_hmem_${interface} PRIVATE PkgConfig::CMOCKA ${CMAKE_DL_LIBS})
  hmem_unit_test(test_hmem_${interface} ${interface} ${interface})
  hmem_unit_test(test_hmem_${interface}_old ${interface} ${interface}/old old)
endforeach()

# Declarations of vendors' interfaces against the vendors' headers, where those are.
find_path(HMREG_NRT_INCLUDE nrt/nrt.h HINTS /opt/aws/neuron/include)
find_path(HMREG_SYNAPSE_INCLUDE synapse_api.h HINTS /usr/include/habanalabs)
if(HMREG_NRT_INCLUDE)
  add_library(abi_neuron OBJECT abi_neuron.c)
  target_include_directories(abi_neuron SYSTEM PRIVATE ${HMREG_NRT_INCLUDE})
  target_link_libraries(abi_neuron PRIVATE hm_build)
endif()
if(HMREG_SYNAPSE_INCLUDE)
  add_library(abi_synapseai OBJECT abi_synapseai.c)
  target_include_directories(abi_synapseai SYSTEM PRIVATE ${HMREG_SYNAPSE_INCLUDE})
  target_link_libraries(abi_synapseai PRIVATE hm_build)
endif()

# Over the emulated Level Zero drivers (tests/drivers/accel/ze), which the vendor's loader loads.
foreach(test test_hmem_ze test_hmem_ze_work)
  hmreg_test(${test} unit SOURCES ${test}.c ${PROJECT_SOURCE_DIR}/tests/hmem/make_ze.c
    LIBRARIES ${CMAKE_DL_LIBS})
  add_dependencies(${test} emu_ze emu_ze2)
  set_tests_properties(${test} PROPERTIES ENVIRONMENT
    "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/drivers/accel/ze;\
ZE_ENABLE_ALT_DRIVERS=libze_emu.so.1,libze_emu2.so.1;EMU_ZE2=nodmabuf=2")
endforeach()

# Hand-written declarations against the vendor's headers, where they are.
find_path(HMREG_ZE_INCLUDE level_zero/ze_ddi.h)
if(HMREG_ZE_INCLUDE)
  hmreg_program(abi_ze abi_ze.c)
  target_include_directories(abi_ze PRIVATE ${HMREG_ZE_INCLUDE})
  hmreg_add_test(abi_ze unit $<TARGET_FILE:abi_ze>)
endif()

# CUDA over its emulated driver, and our text of its interface against the vendor's where that is here.
hmreg_test(test_hmem_cuda unit SOURCES test_hmem_cuda.c ../hmem/cuda_calls.c ../hmem/make_cuda.c
  ../hmem/make_cuda_peer.c LIBRARIES ${CMAKE_DL_LIBS})
add_dependencies(test_hmem_cuda emu_cuda emu_nvml)
set_tests_properties(test_hmem_cuda PROPERTIES ENVIRONMENT
  "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/drivers/accel/cuda")
find_path(HMREG_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include)
if(HMREG_CUDA_INCLUDE)
  add_library(abi_cuda OBJECT abi_cuda.c)
  target_link_libraries(abi_cuda PRIVATE hm_build)
  target_include_directories(abi_cuda SYSTEM PRIVATE ${HMREG_CUDA_INCLUDE})
endif()

# XPU contexts of CUDA over it.
hmreg_test(test_xpu_flush unit SOURCES test_xpu_flush.c ../hmem/cuda_calls.c
  LIBRARIES ${CMAKE_DL_LIBS})
add_dependencies(test_xpu_flush emu_cuda emu_nvml)
set_tests_properties(test_xpu_flush PROPERTIES ENVIRONMENT
  "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/drivers/accel/cuda;FI_HMEM=cuda")

# The dma-buf layer over it, with each bound on exports that stay open; and the way taken, as it is told.
foreach(test test_dmabuf test_mr_told)
  hmreg_program(${test} ${test}.c ../hmem/cuda_calls.c ../hmem/make_cuda.c ../hmem/make_cuda_peer.c)
  target_link_libraries(${test} PRIVATE PkgConfig::CMOCKA ${CMAKE_DL_LIBS})
  add_dependencies(${test} emu_cuda emu_nvml)
endforeach()
# hmreg_cuda_test(NAME PROGRAM SETTINGS...)
function(hmreg_cuda_test name program)
  hmreg_add_test(${name} unit $<TARGET_FILE:${program}>)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/drivers/accel/cuda;FI_HMEM=cuda;${ARGN}")
endfunction()
hmreg_cuda_test(test_dmabuf test_dmabuf)
foreach(keep 0 1 7)
  hmreg_cuda_test(test_dmabuf_keep_${keep} test_dmabuf HMREG_DMABUF_KEEP=${keep})
endforeach()
hmreg_cuda_test(test_mr_told test_mr_told FI_LOG_LEVEL=debug FI_LOG_SUBSYS=mr)

# Nothing of them runs: that they compile is the test.
foreach(text abi_rocr abi_neuron abi_synapseai abi_cuda)
  if(TARGET ${text})
    add_dependencies(tests_unit ${text})
  endif()
endforeach()

# What a registration cache asks, with interfaces of the test's own; each setting is a process.
hmreg_program(test_hmem_owner test_hmem_owner.c)
target_link_libraries(test_hmem_owner PRIVATE PkgConfig::CMOCKA)
hmreg_add_test(test_hmem_owner unit $<TARGET_FILE:test_hmem_owner>)
hmreg_add_test(test_hmem_owner_none unit $<TARGET_FILE:test_hmem_owner> none)
set_tests_properties(test_hmem_owner_none PROPERTIES ENVIRONMENT "FI_HMEM=none")
set(switches)
foreach(interface cuda rocr ze)
  string(TOUPPER ${interface} upper)
  set(switch "FI_MR_${upper}_CACHE_MONITOR_ENABLED=0")
  list(APPEND switches ${switch})
  hmreg_add_test(test_hmem_owner_off_${interface} unit $<TARGET_FILE:test_hmem_owner> off ${interface})
  set_tests_properties(test_hmem_owner_off_${interface} PROPERTIES
    ENVIRONMENT "${switch};FI_LOG_LEVEL=info")
endforeach()
hmreg_add_test(test_hmem_owner_off unit $<TARGET_FILE:test_hmem_owner> off cuda rocr ze)
set_tests_properties(test_hmem_owner_off PROPERTIES ENVIRONMENT "${switches};FI_LOG_LEVEL=info")
