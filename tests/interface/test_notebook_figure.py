"""Figures show themselves in a notebook, also where pyplot was never imported."""

import keyshift as ks


def test_a_comparison_draws_itself_as_a_picture():
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2)
    figure = ks.compare(ks.KeyGroupAllocation(w, max_migrations=1), ["flux"]).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
