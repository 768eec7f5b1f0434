"""Predictions are scored by rank and by size, and not at all where there are too few."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrarsi.search.calibration import FEWEST_SCORED, score_predictions

# Far enough apart for a factor's rounding to leave their order as it is.
RATIOS = st.lists(
    st.integers(1, 1000).map(lambda each: each / 100), min_size=FEWEST_SCORED, max_size=12
)


@given(RATIOS)
def test_what_was_predicted_exactly_has_no_error(ratios):
    score = score_predictions(ratios, ratios)
    assert score.mean_log_error == pytest.approx(0.0)
    assert score.rank_correlation in (None, pytest.approx(1.0))


@given(RATIOS, st.floats(0.2, 5))
def test_a_constant_factor_is_its_logarithm_in_error_and_keeps_the_order(ratios, factor):
    score = score_predictions([factor * each for each in ratios], ratios)
    assert score.mean_log_error == pytest.approx(abs(math.log(factor)))
    assert score.rank_correlation in (None, pytest.approx(1.0))


def test_an_order_turned_round_correlates_fully_the_wrong_way():
    assert score_predictions([0.5, 0.7, 0.9], [0.9, 0.8, 0.7]).rank_correlation == pytest.approx(-1)


def test_ties_share_their_rank():
    # ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4
    score = score_predictions([0.5, 0.5, 0.7, 0.9], [0.5, 0.6, 0.7, 0.8])
    assert score.rank_correlation == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_equal_predictions_have_no_order_to_score():
    score = score_predictions([0.8, 0.8, 0.8], [0.5, 0.6, 0.7])
    assert score.rank_correlation is None
    assert score.mean_log_error is not None


def test_too_few_pairs_are_not_scored():
    score = score_predictions([0.8, 0.9], [0.8, 0.9])
    assert (score.num, score.rank_correlation, score.mean_log_error) == (2, None, None)


@pytest.mark.parametrize(("predicted", "measured"), [([1.0], []), ([0.0] * 3, [1.0] * 3)])
def test_what_cannot_be_scored_is_an_error(predicted, measured):
    with pytest.raises(ValueError, match=r"ratio|predictions for"):
        score_predictions(predicted, measured)
