// consumer.cpp: the public headers are usable from C++
#include <cstdio>
#include <ffn.h>
#include <ffn_blas.h>
#include <ffngen.h>

int main() {
    ffn_spec spec;
    ffn_diag diag;
    if (ffn_spec_parse("bert-base", &spec, &diag) != FFN_OK || spec.d_model != 768 || spec.d_ff != 3072)
        return 1;
    std::printf("%s, LLVM %s\n", spec.activation, ffngen_llvm_version());
    return ffn_blas_product(true) == nullptr;
}
