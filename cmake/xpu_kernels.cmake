# SPDX-License-Identifier: BSD-2-Clause
# hmreg_xpu_kernels(TARGET SOURCE): kernels that are written once (samples/xpu/kernel.h), for the CPU device and,
# where nvcc is, for CUDA as an image within the program.  With them comes what samples/xpu/ has for hosts.
find_program(HMREG_NVCC nvcc PATHS /usr/local/cuda/bin DOC "CUDA's compiler, for kernels of samples and tests")
mark_as_advanced(HMREG_NVCC)
set(HMREG_NVCC_FLAGS -x cu -std=c++17 -O2 -fatbin
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90])
if(HMREG_NVCC AND NOT DEFINED HMREG_NVCC_WORKS) # it needs a C++ compiler of the host's
  set(trial ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_works)
  file(WRITE ${trial}.cu "#include <cuda.h>\nextern \"C\" __global__ void works(int *p) { *p = threadIdx.x; }\n")
  execute_process(COMMAND ${HMREG_NVCC} ${HMREG_NVCC_FLAGS} -MD -MF ${trial}.d -o ${trial}.fatbin ${trial}.cu
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(HMREG_NVCC_WORKS NO CACHE INTERNAL "nvcc compiles kernels")
  if(result EQUAL 0)
    # Its own path need not lead to its headers: what stands in PATH may be a script that calls it.
    file(READ ${trial}.d headers)
    if(headers MATCHES "([^ \n]+)/cuda\\.h")
      get_filename_component(headers ${CMAKE_MATCH_1} REALPATH)
      set(HMREG_NVCC_INCLUDE ${headers} CACHE INTERNAL "where nvcc takes cuda.h from")
      set(HMREG_NVCC_WORKS YES CACHE INTERNAL "nvcc compiles kernels")
    endif()
  endif()
  if(NOT HMREG_NVCC_WORKS)
    message(STATUS "Kernels are not compiled for CUDA: ${HMREG_NVCC}: ${output}")
  endif()
endif()

function(hmreg_xpu_kernels target source)
  get_filename_component(source ${source} ABSOLUTE)
  set(xpu ${PROJECT_SOURCE_DIR}/samples/xpu)
  target_sources(${target} PRIVATE ${source} ${xpu}/cuda_device.c ${xpu}/device.c ${xpu}/side.c)
  target_link_libraries(${target} PRIVATE cpu_device ${CMAKE_DL_LIBS})
  if(NOT HMREG_NVCC OR NOT HMREG_NVCC_WORKS)
    return()
  endif()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${target}.fatbin)
  add_custom_command(OUTPUT ${image} DEPFILE ${image}.d DEPENDS ${source} VERBATIM
    COMMAND ${HMREG_NVCC} ${HMREG_NVCC_FLAGS} -MD -MF ${image}.d
      -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR} -o ${image} ${source})
  file(CONFIGURE OUTPUT ${target}_image.c @ONLY CONTENT [[
/* Generated: what nvcc made of the kernels. */
extern const unsigned char xpu_cuda_image[];
__asm__(".section .rodata\n.globl xpu_cuda_image\n.balign 64\nxpu_cuda_image:\n"
	".incbin \"@image@\"\n.previous");
]])
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}_image.c)
  set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS ${image})
  target_sources(${target} PRIVATE ${generated})
  target_compile_definitions(${target} PRIVATE XPU_WITH_CUDA)
  target_include_directories(${target} SYSTEM PRIVATE ${HMREG_NVCC_INCLUDE})
endfunction()
