"""The settings. `settings.json` declares each of them with its default, its help text, and its range or choices.

Values come from flags, then the environment (`COUNTERFOIL_*`), then a TOML
file, then the defaults. Secrets are printed as `***`.
"""

import errno
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import bound_socket, is_ip_address
from counterfoil.machine.files import read_or_create_secret, read_promptly
from counterfoil.model.messages import MessageError
from counterfoil.model.text import is_address, scheme_of, use_address_form, without_password


class SettingsError(MessageError):
    """A setting or an option of a command cannot be used. `names` lists the affected settings, if there are any."""

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


class Setting(Struct, frozen=True):
    """A setting. A number has a range; a text may have `choices`. A secret is printed as `***`."""

    name: str
    default: str | int
    help: str
    range: tuple[int, int] = (0, 0)
    choices: tuple[str, ...] = ()
    is_secret: bool = False

    @property
    def variable(self) -> str:
        return f"COUNTERFOIL_{self.name.upper()}"


TABLE = msgspec.json.decode((Path(__file__).parent / "settings.json").read_bytes(), type=tuple[Setting, ...])
_PROBLEMS = msgspec.json.decode((Path(__file__).parent / "settings_problems.json").read_bytes(), type=dict[str, str])
BY_NAME = {setting.name: setting for setting in TABLE}
MAX_WORKERS = BY_NAME["workers"].range[1]
DATABASES = ("postgresql://", "postgres://")
METERS = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://")
# Variables that are not settings: those of commands, of the files in `deploy`, of a connector, and of the tests.
_OF_COMMANDS = frozenset(
    {
        "COUNTERFOIL_CONFIG",
        "COUNTERFOIL_DEBUG",
        "COUNTERFOIL_IMPORT_MAPPINGS",
        "COUNTERFOIL_IMPORT_URL",
        "COUNTERFOIL_KEY",
        "COUNTERFOIL_URL",
    }
)
_OTHER_VARIABLES = re.compile(
    "COUNTERFOIL_(?:(?:API|DEPLOYMENT|LOAD|METER|OPS|OWNER)_SECRET|PAGE_SIZE|PULL_[A-Z_]+|TEST_[A-Z_]+)"
)
# Docker and Kubernetes set these if another container, or a service, has a name that begins with `counterfoil`.
_CONTAINER_LINK = re.compile(
    "COUNTERFOIL_(?:[A-Z0-9_]+_)?(?:NAME|ENV_.+|SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)"
)
_LINKED_PORT = re.compile("(?:tcp|udp|sctp)://.*")
# How similar a name must be to count as a misspelling, from 0 to 1. Two exchanged letters of four are 0.75.
_MISSPELLED_FROM = 0.75
# This also matches mistyped addresses, because a typo must not create a folder with a password in its name.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+]*:")
_API_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_HEADER = re.compile(r"[A-Za-z0-9-]+: ?[!-~ ]+")


class Settings(Struct, frozen=True, kw_only=True):
    """The validated settings. If the store is a database, `database` is its address and `store` is a local folder."""

    database: str
    store: Path
    store_file: str
    meter: str
    replica_lag_ms: int
    pool_size: int
    pool_wait_ms: int
    connect_timeout_ms: int
    statement_timeout_ms: int
    secret: str
    secret_file: Path
    host: str
    port: int
    workers: int
    prefix: str
    api_url: str
    reference: str
    admin_host: str
    admin_names: str
    admin_port: int
    console_host: str
    console_port: int
    console_names: str
    console_proxy: str
    console_proxy_header: str
    console_idle_min: int
    console_max_hours: int
    console_idle_days: int
    console_max_days: int
    console_deliveries: str
    log: str
    log_format: str
    notify_url: str
    notify_header: str
    notify_template: str
    notify_every_sec: int
    heartbeat_url: str
    timezone: str
    batch: int
    silent_folder_min: int
    backup_max_hours: int
    kept: str
    converters: int
    import_memory_mb: int
    import_minutes: int
    import_output_mb: int
    tick_ms: int
    grace_sec: int


class SettingSource(Struct, frozen=True):
    """The value of a setting and its origin: `flag`, the name of a variable, the settings file or `default`."""

    value: str | int
    origin: str


def collect(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> dict[str, SettingSource]:
    """Return every setting with its source, in the table's order."""
    in_file = _read_file(file)
    found = {}
    for setting in TABLE:
        if flags.get(setting.name) is not None:
            found[setting.name] = SettingSource(flags[setting.name], "flag")
        elif setting.variable in environment:
            found[setting.name] = SettingSource(environment[setting.variable], setting.variable)
        elif setting.name in in_file:
            found[setting.name] = SettingSource(in_file[setting.name], str(file))
        else:
            found[setting.name] = SettingSource(setting.default, "default")
    if (store_file := str(found["store_file"].value)) and found["store"].origin != "flag":
        try:
            found["store"] = SettingSource(read_promptly(Path(store_file).expanduser()).decode().strip(), store_file)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read {store_file} (store_file): {error}", "store_file") from error
    return found


def resolve(sources: Mapping[str, SettingSource]) -> Settings:
    """Validate the values and return the settings."""
    values: dict[str, Any] = {setting.name: _value_of(setting, sources[setting.name]) for setting in TABLE}
    _require(values["store"].strip(), _problem("blank_store"), "store")
    masked = without_password(values["store"])
    if not values["store"].startswith(DATABASES) and (_SCHEME.match(values["store"]) or masked != values["store"]):
        raise SettingsError(_problem("other_store", start=DATABASES[0], value=masked), "store")
    values["database"] = values["store"] if values["store"].startswith(DATABASES) else ""
    store = Path(str(BY_NAME["store"].default) if values["database"] else values["store"]).expanduser()
    values["store"] = store
    values["secret_file"] = Path(values["secret_file"]).expanduser() if values["secret_file"] else store / "secret"
    _check(values)
    return Settings(**values)


def load(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    return resolve(collect(flags or {}, os.environ if environment is None else environment, file))


class UnknownVariable(Struct, frozen=True):
    """A variable of the environment that nothing reads, and the known one whose name is similar, or an empty text."""

    name: str
    meant: str

    def __str__(self) -> str:
        advice = f"Did you mean {self.meant}?" if self.meant else "`counterfoil settings` lists all settings."
        return f"{self.name} has no effect, because no setting has this name. {advice}"


def unknown_variables(environment: Mapping[str, str]) -> list[UnknownVariable]:
    known = {setting.variable for setting in TABLE} | _OF_COMMANDS
    unknown = [
        name
        for name, value in sorted(environment.items())
        if name.startswith("COUNTERFOIL_") and name not in known and not _is_of_others(name, value)
    ]
    return [UnknownVariable(name, _similar(name, known)) for name in unknown]


def _is_of_others(name: str, value: str) -> bool:
    if _OTHER_VARIABLES.fullmatch(name) or _CONTAINER_LINK.fullmatch(name):
        return True
    return name.endswith("_PORT") and bool(_LINKED_PORT.fullmatch(value))


def _similar(name: str, known: Iterable[str]) -> str:
    """Return the known variable whose name is most similar, or an empty text if none is. The prefix does not count."""
    from difflib import get_close_matches  # noqa: PLC0415 - few environments have an unknown variable

    prefix = "COUNTERFOIL_"
    names = [variable.removeprefix(prefix) for variable in known]
    close = get_close_matches(name.removeprefix(prefix).upper(), names, n=1, cutoff=_MISSPELLED_FROM)
    return prefix + close[0] if close else ""


def read_secret(settings: Settings, is_built: Callable[[], bool]) -> bytes:
    """Return the deployment secret. A missing file is created, unless the store was already built with a secret."""
    file = settings.secret_file
    if not settings.secret and not file.exists() and is_built():
        raise SettingsError(_problem("missing_secret", file=file))
    try:
        secret = settings.secret.encode() if settings.secret else read_or_create_secret(file)
    except OSError as error:
        raise SettingsError(f"cannot read or create the deployment secret {file}: {error.strerror}.") from error
    if len(secret) < MIN_SECRET_BYTES:
        raise SettingsError(_problem("short_secret", least=MIN_SECRET_BYTES))
    return secret


def mask(name: str, value: object) -> str:
    return "***" if BY_NAME[name].is_secret and value else without_password(str(value))


def display_value(settings: Settings, name: str) -> str:
    """Return the value of a setting with secrets masked."""
    return mask(name, settings.database if name == "store" and settings.database else getattr(settings, name))


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    import tomllib  # noqa: PLC0415 - commands without a settings file start faster without it

    try:
        found = tomllib.loads(read_promptly(file).decode())
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}.") from error
    unknown = sorted(set(found) - set(BY_NAME))
    if unknown:
        raise SettingsError(_problem("unknown_settings", file=file, names=", ".join(unknown)))
    return found


def _value_of(setting: Setting, source: SettingSource) -> str | int:
    """Return the value as a number or a text. Raise `SettingsError` if it is out of range or not one of the choices."""
    name, value = setting.name, str(source.value)
    if not isinstance(setting.default, int):
        if setting.choices and value not in setting.choices:
            raise SettingsError(f"{name} must be one of {', '.join(setting.choices)}, not {value!r}.", name)
        return value
    try:
        number = msgspec.convert(source.value, int, strict=False)
    except msgspec.ValidationError:
        raise SettingsError(f"{name} must be a whole number, not {source.value!r} ({source.origin}).", name) from None
    minimum, maximum = setting.range
    if not minimum <= number <= maximum:
        raise SettingsError(f"{name} must be between {minimum} and {maximum}, not {number}.", name)
    return number


def _problem(name: str, /, **values: object) -> str:
    return _PROBLEMS[name].format_map(values)


def _require(is_met: object, message: str, *names: str) -> None:
    if not is_met:
        raise SettingsError(message, *names)


def _check(values: Mapping[str, Any]) -> None:
    prefix, api_url, timezone = values["prefix"], values["api_url"], values["timezone"]
    is_path = not prefix or (prefix.startswith("/") and not prefix.endswith("/"))
    _require(is_path, _problem("prefix", value=prefix), "prefix")
    _require(not api_url or _API_URL.fullmatch(api_url), _problem("api_url", value=api_url), "api_url")
    for name in ("host", "admin_host", "console_host"):
        _require(values[name].strip(), _problem("blank_host", name=name), name)
    if timezone != BY_NAME["timezone"].default:
        from counterfoil.model.calendar import zone_named  # noqa: PLC0415 - few settings need the time zone database

        _require(zone_named(timezone), _problem("timezone", value=timezone), "timezone")
    _check_proxy(values["console_proxy"], values["console_proxy_header"])
    _check_notices(values)
    _check_servers(values["database"], values["meter"])


def _check_proxy(address: str, header: str) -> None:
    """Check the proxy settings. With a header but no address, anyone who can reach the console could sign in."""
    names = ("console_proxy", "console_proxy_header")
    _require(bool(address) == bool(header), f"{' and '.join(names)} belong together. Set both or neither.", *names)
    if address:
        _require(is_ip_address(address), f"console_proxy must be an IP address, not {address!r}.", names[0])
        is_name = _HEADER_NAME.fullmatch(header)
        _require(is_name, f"console_proxy_header must be the name of a header, not {header!r}.", names[1])


def _check_notices(values: Mapping[str, Any]) -> None:
    """Check the addresses of notifications without quoting them, because they may contain a password."""
    for name in ("notify_url", "heartbeat_url"):
        _require(not values[name] or _is_url(values[name]), _problem("url", name=name), name)
    header, template = values["notify_header"], values["notify_template"]
    _require(not header or _HEADER.fullmatch(header), _problem("notify_header"))
    if template:
        try:
            msgspec.json.decode(template)
        except msgspec.DecodeError as error:
            raise SettingsError(f"notify_template is not valid JSON: {error}.", "notify_template") from None
        _require("{text}" in template, _problem("notify_template"), "notify_template")


def _is_url(text: str) -> bool:
    """Return whether a text is a URL of HTTP that names a host."""
    if not text.startswith(("http://", "https://")) or not is_address(text):
        return False
    try:
        return bool(urlsplit(text).hostname)
    except ValueError:
        return False


def _check_servers(database: str, meter: str) -> None:
    other_meter = _problem("other_meter", starts=", ".join(METERS), scheme=scheme_of(meter))
    _require(not meter or meter.startswith(METERS), other_meter)
    for name, address in (("store", database), ("meter", meter)):
        if address:
            check_address(name, address)
    _require(database or not meter, _problem("meter_alone"))


def check_address(name: str, address: str) -> None:
    _require(is_address(address), f"{name} is not a valid address: {use_address_form(address)}.", name)


def bound(host: str, port: int, prefix: str = "") -> socket.socket:
    """Return a socket that is bound to an address. The settings of the address begin with `prefix`."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        turned_off = " (0 turns the admin listener off)" if prefix == "admin-" else ""
        other = f"port{turned_off}" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
        advice = f"Choose another with --{prefix}{other}."
        raise SettingsError(f"cannot listen on {host}:{port}: {reason}. {advice}") from None
