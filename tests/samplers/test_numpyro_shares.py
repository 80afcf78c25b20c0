"""Shares for numpyro's own chains: the right sites in the right shapes, and more draws per gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

from noisewise import errors
from noisewise.samplers import loc_scale_shares

SD = np.where(np.arange(40) < 20, 0.03, 3.0)
Y = 0.3 * np.random.default_rng(0).normal(size=40) + SD * np.random.default_rng(1).normal(size=40)


def model(y, sd):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    numpyro.sample("top", dist.Normal(0.0, 1.0).expand([2]))
    with numpyro.plate("pairs", 2):
        numpyro.sample("heavy", dist.StudentT(4.0, mu, tau).expand([2]))
    e = numpyro.sample("e", dist.Normal(mu, tau).expand([40]).to_event(1))
    numpyro.sample("y", dist.Normal(e, sd).to_event(1), obs=y)


def test_a_program_without_effects_is_refused():
    with pytest.raises(errors.InvalidInputError, match="no latent site"):
        loc_scale_shares(jax.random.key(0), lambda: numpyro.sample("x", dist.Normal(0.0, 1.0)))


@pytest.mark.slow
def test_numpyros_chains_are_worth_more_by_shares():
    """Sites in plates, expanded and events; the least of mean and spread per gradient is at least
    that of the better of centred and non-centred, less a fifth.
    """
    import arviz

    shares = loc_scale_shares(jax.random.key(0), model, Y, sd=SD)
    assert set(shares) == {"e", "heavy"}
    assert shares["heavy"].shape == (2,)
    assert shares["heavy"].max() < 1e-6
    assert shares["e"].shape == (40,)
    assert shares["e"][:20].min() > 0.9
    assert shares["e"][20:].max() < 0.1

    def worth(centred):
        config = {"heavy": LocScaleReparam(0.0, shape_params=["df"])}
        moved = handlers.reparam(model, config=config | {"e": LocScaleReparam(centered=centred)})
        chains = MCMC(
            NUTS(moved),
            num_warmup=500,
            num_samples=1000,
            num_chains=2,
            chain_method="vectorized",
            progress_bar=False,
        )
        with jax.enable_x64(True):
            chains.run(
                jax.random.PRNGKey(1), jnp.asarray(Y), jnp.asarray(SD), extra_fields=("num_steps",)
            )
        draws = chains.get_samples(group_by_chain=True)
        least = min(float(arviz.ess(np.asarray(draws[name]))) for name in ("mu", "tau"))
        return least / float(np.asarray(chains.get_extra_fields()["num_steps"]).sum())

    assert worth(shares["e"]) > 0.8 * max(worth(1.0), worth(0.0))
