"""A setting has one name, three places where it can be given, one order among them, and a rule that it keeps."""

from __future__ import annotations

import tomllib
from dataclasses import fields

import pytest

from delta_log.model import topic_settings
from ingest_api.config.settings import SETTINGS, ServerSettings, Setting, UnusableSetting
from ingest_api.config.sources import Chosen, choose_settings, show, toml_key, toml_value

BY_NAME = {setting.name: setting for setting in SETTINGS}
ALL = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


def choose(
    file: str | None = None, environment: dict[str, str] | None = None, options: dict[str, object] | None = None
) -> Chosen:
    return choose_settings(options or {}, environment or {}, file, file_name="my.toml")


def other_value(setting: Setting) -> object:
    """One that the setting can take and that is not its default."""
    candidates: list[object] = [
        "true", setting.default + 1 if isinstance(setting.default, int) else None, 1, "0.25", "text", "json", "debug",
        "off", "lz4", "LogAppendTime", "compact", "murmur3", "sticky", "a=b", "http://example.org",
        "some.module:function", "10.0.0.0/8",
    ]  # fmt: skip
    for given in candidates:
        value = None if given is None else setting.check(given)
        if value is not None and value != setting.default:
            return given
    return setting.default  # there is but one


def test_without_any_source_every_setting_has_its_default():
    chosen = choose()
    assert chosen.settings == ServerSettings()
    assert set(chosen.sources.values()) == {"default"}


@ALL
def test_every_default_keeps_its_own_rule(setting: Setting):
    assert setting.parse(setting.default, "default") == setting.default


def test_every_field_is_a_setting_and_every_setting_of_a_topic_too():
    assert {field.name for field in fields(ServerSettings)} - {"topic_defaults"} == {
        setting.field for setting in SETTINGS if not setting.name.startswith("topic.")
    }
    assert {f"topic.{setting.name}" for setting in topic_settings.SETTINGS} == {
        name for name in BY_NAME if name.startswith("topic.")
    }


@pytest.mark.parametrize("spelled", ["option", "variable"])
def test_no_two_settings_are_spelled_alike(spelled: str):
    assert len({getattr(setting, spelled) for setting in SETTINGS}) == len(SETTINGS)


@ALL
def test_every_source_can_give_every_setting_and_means_the_same(setting: Setting):
    given = other_value(setting)
    by_file = choose(f"{toml_key(setting)} = {toml_value(given)}")
    by_variable = choose(environment={setting.variable: str(given)})
    by_option = choose(options={setting.name: str(given)})
    assert by_file.settings == by_variable.settings == by_option.settings
    assert by_file.sources[setting.name] == "file my.toml"
    assert by_variable.sources[setting.name] == f"environment {setting.variable}"
    assert by_option.sources[setting.name] == f"option {setting.option}"
    if given != setting.default:
        assert by_file.settings != ServerSettings()


def test_an_option_goes_before_a_variable_before_the_file_before_the_default():
    file, environment, options = "port = 1\nbroker_id = 1\nmax_records = 1", {"LAKELOG_PORT": "2"}, {"port": "3"}
    environment["LAKELOG_BROKER_ID"] = "2"
    settings = choose(file, environment, options).settings
    assert (settings.port, settings.broker_id, settings.max_records, settings.max_poll_ms) == (3, 2, 1, 60_000)


@pytest.mark.parametrize(
    "file",
    ["topic.retention.ms = 5", '"topic.retention.ms" = 5', '[topic]\n"retention.ms" = 5', "[topic.retention]\nms=5"],
)
def test_points_in_a_name_may_be_tables_in_tables(file: str):
    assert choose(file).settings.topic_defaults == {"retention.ms": 5}


def test_options_of_a_store_are_a_table_or_pairs():
    expected = (("key", "a=b"), ("region", "x"))
    assert choose('store_option = { key = "a=b", region = "x" }').settings.store_option == expected
    assert choose('store_option = ["key=a=b", "region=x"]').settings.store_option == expected
    assert choose(environment={"LAKELOG_STORE_OPTION": "key=a=b,region=x"}).settings.store_option == expected
    assert choose(options={"store_option": ["key=a=b", "region=x"]}).settings.store_option == expected


def test_origins_are_a_list_or_have_commas_between_them():
    expected = ("http://a.example", "https://b.example:8443")
    assert choose('cors_origins = ["http://a.example", "https://b.example:8443"]').settings.cors_origins == expected
    given = {"LAKELOG_CORS_ORIGINS": "http://a.example, https://b.example:8443"}
    assert choose(environment=given).settings.cors_origins == expected


def test_names_and_proxies_are_lists_or_have_commas_between_them():
    given = {"LAKELOG_ADVERTISED_HOSTS": "lake, lake.example.com", "LAKELOG_TRUSTED_PROXIES": "10.0.0.0/8,fe80::/10"}
    settings = choose(environment=given).settings
    assert settings.advertised_hosts == ("lake", "lake.example.com")
    assert settings.trusted_proxies == ("10.0.0.0/8", "fe80::/10")
    file = 'advertised_hosts = ["lake", "lake.example.com"]\ntrusted_proxies = ["10.0.0.0/8", "fe80::/10"]'
    assert choose(file).settings == settings


def test_assignors_are_a_list_or_have_commas_between_them():
    expected = ("mine.assignors:first", "other:second")
    assert choose('assignors = ["mine.assignors:first", "other:second"]').settings.assignors == expected
    given = {"LAKELOG_ASSIGNORS": "mine.assignors:first, other:second"}
    assert choose(environment=given).settings.assignors == expected


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("prot = 1", "file my.toml: there is no setting prot; the nearest is port"),
        ("topic.retention = 1", "file my.toml: there is no setting topic.retention; the nearest is topic.retention.ms"),
        ("port = true", "file my.toml: port cannot be True: it must be a whole number, 0 to 65535"),
        ("port = 1.0", "file my.toml: port cannot be 1.0: it must be a whole number, 0 to 65535"),
        ("port = 65536", "file my.toml: port cannot be 65536: it must be a whole number, 0 to 65535"),
        ('port = ""', "file my.toml: port cannot be '': it must be a whole number, 0 to 65535"),
        ("memory = 1", "file my.toml: memory cannot be 1: it must be true or false"),
        ('memory = "yes"', "file my.toml: memory cannot be 'yes': it must be true or false"),
        ('host = ""', "file my.toml: host cannot be '': it must be a host name or an address"),
        ("data = 5", "file my.toml: data cannot be 5: it must be a directory"),
        ('data = "a\\nb"', "file my.toml: data cannot be 'a\\nb': it must be a directory"),
        ('log_format = "xml"', "file my.toml: log_format cannot be 'xml': it must be one of auto, text, json"),
        ('store_option = "secret"', "store_option cannot be what is given: it must be KEY=VALUE, each key once"),
        ('store_option = ["a=1", "a=2"]', "store_option cannot be what is given: it must be KEY=VALUE, each key once"),
        ("store_option = 5", "store_option cannot be what is given: it must be KEY=VALUE, each key once"),
        ('cors_origins = "example.org"', "cors_origins cannot be 'example.org': it must be * or origins"),
        ("cors_origins = 5", "cors_origins cannot be 5: it must be * or origins"),
        ('advertised_hosts = "lake:8082"', "advertised_hosts cannot be 'lake:8082': it must be * or host names"),
        ('advertised_hosts = ["http://lake"]', "it must be * or host names with commas between them, without ports"),
        ('trusted_proxies = "proxy.example"', "trusted_proxies cannot be 'proxy.example': it must be addresses or"),
        ('trusted_proxies = ["10.0.0.1/8"]', "it must be addresses or networks with commas between them"),
        ('assignors = "range"', "assignors cannot be 'range': it must be functions with commas between them"),
        ('assignors = ["os:system(1)"]', "assignors cannot be ['os:system(1)']: it must be functions with commas"),
        (
            "default_partitions = 9\nmax_partitions = 8",
            "default_partitions=9 cannot be above max_partitions_per_topic or",
        ),
        ("max_bodies_bytes = 2048", "max_bodies_bytes=2048 cannot be below max_body_bytes=67108864"),
        ("topic.min.compaction.lag.ms = 9\ntopic.max.compaction.lag.ms = 8", "topic.min.compaction.lag.ms=9 cannot be"),
        ("port = [1", "file my.toml: it is not TOML: "),
        ("port = 1\nport = 2", "file my.toml: it is not TOML: "),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(file: str, sentence: str):
    with pytest.raises(UnusableSetting) as refused:
        choose(file)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_value_that_is_long_is_not_given_back_whole():
    with pytest.raises(UnusableSetting) as refused:
        choose(environment={"LAKELOG_PORT": "9" * 100_000})
    assert len(str(refused.value)) < 400


def test_an_unknown_variable_of_our_prefix_is_refused_and_the_nearest_named():
    with pytest.raises(UnusableSetting, match=r"environment: .*LAKELOG_PROT; the nearest is LAKELOG_PORT"):
        choose(environment={"LAKELOG_PROT": "1"})


def test_variables_of_others_are_left_alone():
    given = {"LAKELOG_VENV": "x", "LAKELOG_SERVER": "http://elsewhere", "LAKELOG_CACHE": "x", "PORT": "1"}
    assert choose(environment=given).settings == ServerSettings()


def test_what_is_shown_sets_the_same_settings_again_and_hides_what_is_secret():
    chosen = choose('store_option = { password = "tell nobody" }', {"LAKELOG_PORT": "7"}, {"topic.retention.ms": "5"})
    shown = show(chosen)
    assert "tell nobody" not in shown
    assert "port = 7  # environment LAKELOG_PORT" in shown
    assert '"topic.retention.ms" = 5  # option --topic-retention-ms' in shown
    assert len(tomllib.loads(shown)) == len(SETTINGS)
    again = choose(shown).settings
    assert (again.port, again.topic_defaults["retention.ms"]) == (7, 5)
