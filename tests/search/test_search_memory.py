import numpy as np
import pytest
from scipy.optimize import check_grad
from truths import GIB, knob, observe, patch, reference_of

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Observation, Space
from infrarsi.search.lattice import Lattice
from infrarsi.search.memory import MemoryModel
from infrarsi.search.tobit import TobitData, TobitPrior, fit_tobit, negative_log_posterior


def simulate(rng, prior, *, num, limit):
    """Draw coefficients from the prior, then censored data from them."""
    coefficients = rng.normal(prior.mean, prior.sd)
    sigma = float(np.exp(rng.normal(prior.log_sigma_mean, prior.log_sigma_sd)))
    columns = np.column_stack([np.ones(num), rng.integers(0, 3, (num, len(prior.mean) - 1))])
    values = columns @ coefficients + rng.normal(0, sigma, num)
    above = values > limit
    data = TobitData(columns, np.where(above, limit, values), above.astype(np.int64))
    return data, coefficients, sigma


def prior_of(num, *, sd=0.5, sign=None):
    signs = np.zeros(num, dtype=np.int64) if sign is None else np.array(sign)
    return TobitPrior(np.zeros(num), np.full(num, sd), signs)


def test_the_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(1)
    prior = TobitPrior(rng.normal(size=4), np.full(4, 0.7), np.array([0, 1, -1, 0]))
    columns = rng.normal(size=(30, 4))
    data = TobitData(columns, rng.normal(size=30), rng.integers(-1, 2, 30))
    for _ in range(10):
        theta = rng.normal(scale=0.5, size=5)
        error = check_grad(
            lambda t: negative_log_posterior(t, data, prior=prior)[0],
            lambda t: negative_log_posterior(t, data, prior=prior)[1],
            theta,
        )
        size = np.linalg.norm(negative_log_posterior(theta, data, prior=prior)[1])
        assert error < 1e-5 * (1 + size)


def test_it_agrees_with_lifelines_where_the_prior_is_weak():
    from lifelines import LogNormalAFTFitter
    from pandas import DataFrame

    rng = np.random.default_rng(3)
    num = 150
    columns = np.column_stack([np.ones(num), rng.normal(size=(num, 2))])
    values = columns @ np.array([1.0, 0.6, -0.4]) + rng.normal(0, 0.3, num)
    limit = 1.3
    above = values > limit
    assert 20 < above.sum() < 100
    outcome = np.where(above, limit, values)
    weak = TobitPrior(np.zeros(3), np.full(3, 1e3), np.zeros(3, dtype=np.int64), log_sigma_sd=1e3)
    ours = fit_tobit(TobitData(columns, outcome, above.astype(np.int64)), weak)
    frame = DataFrame({"a": columns[:, 1], "b": columns[:, 2]})
    frame["peak"], frame["measured"] = np.exp(outcome), ~above
    theirs = LogNormalAFTFitter().fit(frame, duration_col="peak", event_col="measured")
    mu = theirs.params_["mu_"]
    expected = [mu["Intercept"], mu["a"], mu["b"]]
    assert ours.coefficients == pytest.approx(expected, abs=2e-3)
    log_sigma = theirs.params_["sigma_"]["Intercept"]
    assert np.log(ours.sigma) == pytest.approx(log_sigma, abs=2e-3)


def test_censored_rows_pull_the_mean_above_the_limit():
    columns = np.ones((6, 1))
    prior = TobitPrior(np.zeros(1), np.full(1, 5.0), np.zeros(1, dtype=np.int64))
    above = fit_tobit(TobitData(columns, np.full(6, 2.0), np.ones(6, dtype=np.int64)), prior)
    below = fit_tobit(TobitData(columns, np.full(6, 2.0), -np.ones(6, dtype=np.int64)), prior)
    assert above.coefficients[0] > 2.0 > below.coefficients[0]


def test_the_95_per_cent_interval_covers_about_95_per_cent_of_new_peaks():
    rng = np.random.default_rng(5)
    prior = prior_of(5)
    covered = []
    for _ in range(120):
        data, coefficients, sigma = simulate(rng, prior, num=12, limit=0.4)
        fit = fit_tobit(data, prior)
        fresh = np.column_stack([np.ones(40), rng.integers(0, 3, (40, 4))])
        values = fresh @ coefficients + rng.normal(0, sigma, 40)
        predicted = fit.predict(fresh)
        low, high = predicted.quantile(0.025), predicted.quantile(0.975)
        covered.append(((values >= low) & (values <= high)).mean())
    assert 0.925 <= np.mean(covered) <= 0.975


def test_p_fits_is_calibrated():
    rng = np.random.default_rng(6)
    prior = prior_of(4)
    chances, fitted = [], []
    for _ in range(120):
        data, coefficients, sigma = simulate(rng, prior, num=10, limit=0.3)
        fresh = np.column_stack([np.ones(40), rng.integers(0, 3, (40, 3))])
        values = fresh @ coefficients + rng.normal(0, sigma, 40)
        chances.append(fit_tobit(data, prior).predict(fresh).below(0.3))
        fitted.append(values <= 0.3)
    chances, fitted = np.concatenate(chances), np.concatenate(fitted)
    for low, high in ((0.05, 0.35), (0.35, 0.65), (0.65, 0.95)):
        inside = (chances >= low) & (chances < high)
        assert inside.sum() > 80
        assert abs(fitted[inside].mean() - chances[inside].mean()) < 0.1


def test_a_known_sign_holds_against_noise():
    rng = np.random.default_rng(7)
    columns = np.column_stack([np.ones(5), np.arange(5.0)])
    outcome = -0.06 * np.arange(5.0) + rng.normal(0, 0.05, 5)
    data = TobitData(columns, outcome, np.zeros(5, dtype=np.int64))
    free = fit_tobit(data, prior_of(2))
    signed = fit_tobit(data, prior_of(2, sign=[0, 1]))
    assert free.coefficients[1] < signed.coefficients[1]
    assert signed.coefficients[1] > 0.5 * free.coefficients[1]


SPACE = Space(
    knobs=(knob("remat", (True, False), True, "up"), knob("micro", (1, 2, 4, 8), 1, "up")),
    patches=(patch("saver", memory=(-0.4, 0.1)), patch("unknown")),
    capacity_bytes=80 * GIB,
    default_cost_s=60.0,
)


def model_of(observations, space=SPACE):
    lattice = Lattice(space)
    return MemoryModel(lattice, [(lattice.point_of(each.candidate), each) for each in observations])


def test_what_dominates_an_oom_practically_never_fits():
    oom = Candidate.of({"remat": True, "micro": 4})
    model = model_of([observe(reference_of(SPACE)), observe(oom, "oom")])
    hungrier = np.array([[1, 2, 0, 0], [0, 3, 0, 0], [1, 3, 0, 0]])
    assert (model.p_fits(hungrier) <= 0.01).all()


def test_a_saving_patch_is_not_dominated_by_the_oom_that_lacked_it():
    oom = Candidate.of({"remat": True, "micro": 4})
    model = model_of([observe(reference_of(SPACE)), observe(oom, "oom")])
    plain, saved = model.p_fits(np.array([[0, 3, 0, 0], [0, 2, 1, 0]]))
    assert saved > 0.2 > plain


def test_the_oom_of_a_candidate_with_the_saver_counts_against_the_one_without():
    oom = Candidate.of({"remat": True, "micro": 4}, ["saver"])
    model = model_of([observe(reference_of(SPACE)), observe(oom, "oom")])
    assert model.p_fits(np.array([[0, 2, 0, 0]]))[0] <= 0.01


def test_what_a_measured_candidate_dominates_fits():
    big = observe(Candidate.of({"remat": False, "micro": 4}), peak_gib=78.0)
    model = model_of([observe(reference_of(SPACE)), big])
    assert (model.p_fits(np.array([[0, 2, 0, 0], [1, 1, 0, 0]])) >= 0.98).all()


def test_fits_and_ooms_without_memory_numbers_are_enough():
    def fitted(micro):
        plain = observe(Candidate.of({"remat": True, "micro": micro}))
        return Observation(**{**dict(plain), "peak_bytes": None})

    oom = observe(Candidate.of({"remat": True, "micro": 8}), "oom")
    model = model_of([fitted(1), fitted(2), oom])
    chances = model.p_fits(np.array([[0, 1, 0, 0], [0, 2, 0, 0], [0, 3, 0, 0]]))
    assert chances[0] > 0.9 > chances[1] > chances[2]


def test_a_prior_on_a_patch_gives_way_to_measurements():
    space = Space(
        knobs=(),
        patches=(patch("liar", memory=(-0.4, 0.2)),),
        capacity_bytes=80 * GIB,
        default_cost_s=60.0,
    )
    seen = [
        observe(Candidate.of({}), peak_gib=40.0),
        observe(Candidate.of({}, ["liar"]), peak_gib=60.0),
    ] * 3
    model = model_of(seen, space)
    peak = np.exp(model.predict(np.array([[1]])).quantile(0.5)[0]) / GIB
    assert peak == pytest.approx(60.0, rel=0.1)
