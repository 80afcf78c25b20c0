"""Prints options of XLA for the fast suite, whose programs run for milliseconds: those that halve the
time to compile, of which this version of XLA knows. Unknown ones in XLA_FLAGS would end the process.
"""

from noisewise._compile.options import known_options

QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Each worker has one core, so that programs are compiled in one piece: 32 pieces take half as long
again.
"""

if __name__ == "__main__":
    options = known_options(QUICK) or {}
    print(*(f"--{name}={str(value).lower()}" for name, value in options.items()))
