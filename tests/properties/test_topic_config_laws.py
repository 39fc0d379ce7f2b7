"""Laws of topic configurations: whatever is admitted survives being stored, described and altered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.topic_config import SETTINGS, Setting, TopicConfig
from delta_log.model.topic_settings import INT64_MAX, OneOf, Share, SomeOf, Whole


def values_of(setting: Setting) -> st.SearchStrategy[int | float | str]:
    match setting.check:
        case Whole(least, most):
            return st.integers(least, most)
        case Share():
            return st.floats(0, 1)
        case OneOf(words):
            return st.sampled_from(words)
        case SomeOf(words):
            return st.lists(st.sampled_from(words), min_size=1, unique=True).map(",".join)


layers = st.fixed_dictionaries({}, optional={s.name: values_of(s) for s in SETTINGS}).filter(
    lambda layer: layer.get("min.compaction.lag.ms", 0) <= layer.get("max.compaction.lag.ms", INT64_MAX)
)


@given(layers, layers)
def test_what_is_stored_is_read_back_the_same(values: dict[str, object], server: dict[str, object]) -> None:
    stored = TopicConfig.of(values).to_properties()
    assert TopicConfig.from_properties(stored) == TopicConfig.of(values)
    merged = TopicConfig.from_properties(stored, server_defaults=server)
    assert merged.to_properties() == stored


@given(layers)
def test_what_is_described_can_be_given_back(values: dict[str, object]) -> None:
    """A described value is canonical: set again, it is the same value."""
    config = TopicConfig.of(values)
    described = {d.name: d.value for d in config.describe()}
    assert TopicConfig.of(described).in_force == config.in_force
    assert {d.name: d.value for d in TopicConfig.of(described).describe()} == described


@given(layers, layers)
def test_altering_is_setting_over_what_was_set(first: dict[str, object], second: dict[str, object]) -> None:
    merged = first | second
    if merged.get("min.compaction.lag.ms", 0) <= merged.get("max.compaction.lag.ms", INT64_MAX):
        assert TopicConfig.of(first).alter(second) == TopicConfig.of(merged)
    assert TopicConfig.of(first).alter(dict.fromkeys(first)) == TopicConfig()
