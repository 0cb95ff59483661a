"""Published methods that `auto` never takes: run by their name, or for comparison.

    samplers      kernels of the papers for a population (`infer(..., method="pmmh")`)
    regression    samplers and estimates of a regression, from a `Problem` to a `Fit`
    graphical     estimates of a graphical model, from a `Problem` to a point
    baselines     methods that read the records themselves: for papers, benchmarks and tests, never for a release
The registry of methods of each room names what is here and imports it when it is asked for; nothing else does.
"""
