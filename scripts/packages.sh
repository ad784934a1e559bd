# The Debian 12 packages of the project, and how scripts make sure of them. Sourced.

# For:      build     what the libraries and the command need
#           test      needed by the test suites as well
#           optional  widens what the tests cover; done without where it can't be installed
packages=(
    'build     build-essential          gcc, make, binutils'
    'build     cmake                    3.25 or newer'
    'build     ninja-build              runs the build'
    'build     pkg-config               finds libraries'
    'build     llvm-19-dev              the code generator; 16 to 19 serve'
    'build     libopenblas-dev          independent product for verification, and peer of the benchmark'
    'build     libcjson-dev             JSON in the command'
    'build     libxxhash-dev            checksums (header only)'
    'test      libcriterion-dev         test framework'
    'test      libmpfr-dev              exact values to test activations against'
    'test      clang                    second compiler'
    'optional  libpthreadpool-dev       libffnpool, a ready pool of threads'
    'optional  clang-format             checks the formatting'
    'optional  libllvm16                a second LLVM in one process with 19'
    'optional  valgrind                 looks for leaks where sanitizers cannot'
    'optional  gdb                      reads the names of generated code'
    'optional  qemu-user                runs AArch64 code on x86-64'
    'optional  gcc-aarch64-linux-gnu    links AArch64 code on x86-64'
    'optional  libc6-dev-arm64-cross    the C library it links with, which it only recommends'
    'optional  lld                      link-time optimisation by clang'
    'optional  libdnnl-dev              oneDNN, a peer of the benchmark'
    'optional  libxsmm-dev              libxsmm, a peer of the benchmark'
    'optional  libblis-dev              BLIS, a peer of the benchmark'
    'optional  gnuplot-nox              draws the pictures of tune and bench'
)

# packages_missing FOR...: the names among these that are not installed
packages_missing() {
    local row for_ name
    for row in "${packages[@]}"; do
        read -r for_ name _ <<<"$row"
        [[ " $* " == *" $for_ "* ]] || continue
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
    done
}

# packages_install FOR...: installs what is missing, says what, and returns 1 if a package that is not optional is lacking
packages_install() {
    local missing
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo 'This is no Debian: what is needed is taken to be installed. On Debian it would be:'
        printf '    %s\n' "${packages[@]}"
        return 0
    fi
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        echo "Installing with apt-get:" $missing
        export DEBIAN_FRONTEND=noninteractive
        apt-get -q -o Acquire::Retries=3 update </dev/null || true
        # One by one if all at once fails, so that an optional one cannot keep the others out.
        apt-get -qy -o Acquire::Retries=3 install --no-install-recommends $missing </dev/null ||
            for name in $missing; do
                apt-get -qy install --no-install-recommends "$name" </dev/null || true
            done
    fi
    missing=$(packages_missing optional)
    if [ -n "$missing" ] && [[ " $* " == *" optional "* ]]; then
        echo "Doing without these optional packages:" $missing
    fi
    missing=$(packages_missing $(printf '%s\n' "$@" | grep -vx optional))
    if [ -n "$missing" ]; then
        echo "These packages are missing and could not be installed (root is needed):" $missing >&2
        echo "    apt-get install" $missing >&2
        return 1
    fi
}
