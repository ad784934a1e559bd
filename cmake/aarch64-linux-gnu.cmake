# Toolchain file: libffn for AArch64 with Debian's and Ubuntu's cross compiler (gcc-aarch64-linux-gnu).
#
#   cmake -B build/aarch64 -D CMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -D FFN_BUILD_RUNTIME_ONLY=ON
#
# xxHash is headers alone; where the cross compiler has none of its own, FFN_XXHASH names a folder with xxhash.h in it.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
find_program(FFN_AARCH64_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
if(FFN_AARCH64_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${FFN_AARCH64_EMULATOR} -L /usr/aarch64-linux-gnu)
endif()
if(FFN_XXHASH)
  set(CMAKE_C_FLAGS_INIT "-idirafter ${FFN_XXHASH}")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FFN_XXHASH)
