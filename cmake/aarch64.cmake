# Compiles for 64-bit ARM on a machine that is none, and runs there what was compiled: ./ct test --arm. Debian's cross compiler
# finds the headers and libraries of that architecture (zlib1g-dev:arm64) beside the machine's own.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
