"""The settings. `Settings` declares each of them with its type, its default, its help text, and its range or choices.

Values come from flags, then the environment (`COUNTERFOIL_*`), then a TOML
file, then the defaults. Secrets are printed as `***`.
"""

import errno
import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import bound_socket, is_ip_address
from counterfoil.machine.files import read_or_create_secret, read_promptly
from counterfoil.model.calendar import zone_named
from counterfoil.model.messages import MessageError
from counterfoil.model.text import is_address, scheme_of, use_address_form, without_password


class SettingsError(MessageError):
    """A setting or an option of a command cannot be used. `names` lists the affected settings, if there are any."""

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


DATABASES = ("postgresql://", "postgres://")
METERS = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://")
# This also matches mistyped addresses, because a typo must not create a folder with a password in its name.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+]*:")
_API_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_HEADER = re.compile(r"[A-Za-z0-9-]+: ?[!-~ ]+")


class Setting(Struct, frozen=True, kw_only=True):
    """The declaration of a setting. A number has a range; a text may have `choices`. A secret is printed as `***`."""

    default: str | int
    help: str
    range: tuple[int, int] = (0, 0)
    choices: tuple[str, ...] = ()
    is_secret: bool = False
    # The attribute of `Settings` that it declares.
    name: str = ""

    @property
    def variable(self) -> str:
        return f"COUNTERFOIL_{self.name.upper()}"


class Settings(Struct, frozen=True, kw_only=True):
    """The table of settings, and their validated values."""

    # Not a setting: the value of `store` if that is the address of a database. `store` is then a local folder.
    database: str
    store: Annotated[
        Path,
        Setting(
            default="counterfoil-data",
            help="Folder of the embedded store (commands such as `init` and `load` create it with mode 0700), "
            "postgresql://... for a PostgreSQL server, or postgresql://user@a:5432,b:5432/db for a primary and "
            "its replicas.",
        ),
    ]
    store_file: Annotated[
        str,
        Setting(
            default="",
            help="File that contains the value of store, for example an address with a password. If it is not empty, "
            "the variable COUNTERFOIL_STORE is not used.",
        ),
    ]
    meter: Annotated[
        str,
        Setting(
            default="",
            help="Address of a shared meter on Redis or Valkey: redis://, redis+sentinel:// or redis+cluster://; for "
            "TLS, use rediss instead of redis. If empty, the store counts requests.",
        ),
    ]
    replica_lag_ms: Annotated[
        int,
        Setting(
            default=5000,
            range=(1000, 86_400_000),
            help="Maximum replica lag, in milliseconds. A replica that lags further behind is not used for reads until "
            "it catches up.",
        ),
    ]
    pool_size: Annotated[
        int,
        Setting(
            default=8,
            range=(1, 100),
            help="Maximum number of PostgreSQL connections per worker and server; a worker never uses more than 32 at "
            "once.",
        ),
    ]
    pool_wait_ms: Annotated[
        int,
        Setting(
            default=2000,
            range=(10, 60000),
            help="How long a request waits for a free PostgreSQL connection before it fails, in milliseconds.",
        ),
    ]
    connect_timeout_ms: Annotated[
        int,
        Setting(
            default=3000,
            range=(100, 60000),
            help="How long a worker waits for a new PostgreSQL connection, in milliseconds.",
        ),
    ]
    statement_timeout_ms: Annotated[
        int,
        Setting(
            default=5000,
            range=(100, 60000),
            help="How long an SQL statement of a request may run before PostgreSQL cancels it, in milliseconds.",
        ),
    ]
    secret: Annotated[
        str,
        Setting(
            default="",
            is_secret=True,
            help="Deployment secret that member tokens are derived from, at least 32 bytes of text. If empty, it is "
            "read from secret_file.",
        ),
    ]
    secret_file: Annotated[
        Path,
        Setting(
            default="",
            help="File with the deployment secret. It is created with mode 0600 when it is first needed. If empty, the "
            "file is `secret` in the store's folder (with PostgreSQL, in counterfoil-data).",
        ),
    ]
    host: Annotated[str, Setting(default="127.0.0.1", help="Address the API listens on.")]
    port: Annotated[int, Setting(default=8000, range=(0, 65535), help="Port the API listens on.")]
    workers: Annotated[
        int, Setting(default=1, range=(1, 256), help="Number of worker processes; one per core is recommended.")
    ]
    prefix: Annotated[str, Setting(default="/ext", help="Path prefix before /v1; may be empty.")]
    api_url: Annotated[
        str,
        Setting(
            default="",
            help="Base URL of the API for integrators, such as https://api.example.com/ext/v1. The console shows it "
            "with a new key. If empty, the console shows a placeholder.",
        ),
    ]
    reference: Annotated[
        str,
        Setting(
            default="off",
            choices=("on", "off"),
            help="Whether to serve the reference page at {prefix}/reference on the API's port, without a key: on or "
            "off.",
        ),
    ]
    admin_host: Annotated[
        str,
        Setting(
            default="127.0.0.1",
            help="Address the admin listener (/live, /serving, /ready, /metrics) listens on. Do not expose it to the "
            "internet.",
        ),
    ]
    admin_names: Annotated[
        str,
        Setting(
            default="",
            help="Comma-separated host names that clients use to reach the admin listener, such as the node's DNS "
            "name. Loopback names and admin_host itself need not be listed.",
        ),
    ]
    admin_port: Annotated[
        int, Setting(default=8001, range=(0, 65535), help="Port of the admin listener; 0 turns it off.")
    ]
    console_host: Annotated[
        str,
        Setting(
            default="127.0.0.1",
            help="Address the operator's console (`counterfoil console`) listens on. Do not expose it to the internet.",
        ),
    ]
    console_port: Annotated[int, Setting(default=8002, range=(0, 65535), help="Port of the operator's console.")]
    console_names: Annotated[
        str,
        Setting(
            default="",
            help="Comma-separated host names that browsers use to reach the console, such as that of a proxy. Its own "
            "name and a console_host that is not a loopback address need not be listed.",
        ),
    ]
    console_proxy: Annotated[
        str,
        Setting(
            default="",
            help="IP address of a proxy that signs operators in to the console. Requires console_proxy_header.",
        ),
    ]
    console_proxy_header: Annotated[
        str,
        Setting(
            default="",
            help="Header in which the proxy (console_proxy) sends the name of the operator, such as X-Remote-User.",
        ),
    ]
    console_idle_min: Annotated[
        int,
        Setting(
            default=30,
            range=(1, 1440),
            help="Minutes without a request after which a device that was signed in without --days is signed out of "
            "the console.",
        ),
    ]
    console_max_hours: Annotated[
        int,
        Setting(
            default=8,
            range=(1, 168),
            help="Hours after which a device that was signed in without --days is signed out of the console in any "
            "case.",
        ),
    ]
    console_idle_days: Annotated[
        int,
        Setting(
            default=14,
            range=(1, 90),
            help="Days without a request after which a device that was signed in with --days is signed out of the "
            "console.",
        ),
    ]
    console_max_days: Annotated[
        int,
        Setting(
            default=90,
            range=(1, 400),
            help="The longest time, in days, for which `console link --days` may sign a device in to the console.",
        ),
    ]
    console_deliveries: Annotated[
        str,
        Setting(
            default="",
            help="Folder that `counterfoil load --watch` watches, for the files that operators bring in with the "
            "console. If empty, a process of the console that can open no keys loads them.",
        ),
    ]
    log: Annotated[
        str,
        Setting(
            default="stderr", choices=("stderr", "stdout", "off"), help="Where the log goes: stderr, stdout or off."
        ),
    ]
    log_format: Annotated[
        str,
        Setting(
            default="auto",
            choices=("auto", "json", "text"),
            help="Format of the log: json, text (human-readable), or auto (text on a terminal and json elsewhere).",
        ),
    ]
    notify_url: Annotated[
        str,
        Setting(
            default="",
            is_secret=True,
            help="URL that gets a POST with JSON when a finding of `status` appears, gets worse or is resolved.",
        ),
    ]
    notify_header: Annotated[
        str,
        Setting(default="", is_secret=True, help="A header for notifications, such as Authorization: Bearer TOKEN."),
    ]
    notify_template: Annotated[
        str,
        Setting(
            default="",
            help="JSON that is sent instead of our own, for services that require a form of their own. Its strings may "
            "contain {text}, which is replaced by the text of the notification.",
        ),
    ]
    notify_every_sec: Annotated[
        int,
        Setting(
            default=60,
            range=(1, 3600),
            help="How often the service checks itself, in seconds. It sends at most one notification per check.",
        ),
    ]
    heartbeat_url: Annotated[
        str,
        Setting(
            default="",
            is_secret=True,
            help="URL that gets an empty POST after every check without a failure, so that another service can raise "
            "the alarm when the requests stop.",
        ),
    ]
    timezone: Annotated[
        str,
        Setting(
            default="Asia/Bangkok",
            help="IANA time zone in which commands and the console show times to people, and that imports propose for "
            "new shops. JSON, CSV and the API do not use it.",
        ),
    ]
    batch: Annotated[
        int,
        Setting(
            default=1000,
            range=(1, 100_000),
            help="Maximum number of source records that `load` writes per transaction.",
        ),
    ]
    silent_folder_min: Annotated[
        int,
        Setting(
            default=1500,
            range=(0, 10_000_000),
            help="Minutes without a delivery after which a folder watched by `load --watch` counts as silent; 0 turns "
            "this off.",
        ),
    ]
    backup_max_hours: Annotated[
        int,
        Setting(
            default=26,
            range=(0, 100_000),
            help="Age in hours after which the latest backup counts as too old; 0 turns this off.",
        ),
    ]
    kept: Annotated[
        str,
        Setting(
            default="",
            help="Folder for delivered files after `load --watch` has processed them, in its folders `done`, "
            "`quarantine` and `held`. Nobody but the user of the watcher may write to it. If empty, they are in "
            "the watched folder.",
        ),
    ]
    converters: Annotated[
        int,
        Setting(
            default=3,
            range=(0, 64),
            help="Maximum number of processes that convert records during a large `load`, which starts at most one per "
            "core, not counting its own; 0 turns them off. Linux only.",
        ),
    ]
    import_memory_mb: Annotated[
        int,
        Setting(
            default=2048,
            range=(128, 1_048_576),
            help="Memory that the process which converts an export may use, in MiB. An export that takes more is not "
            "loaded.",
        ),
    ]
    import_minutes: Annotated[
        int,
        Setting(
            default=60,
            range=(1, 10080),
            help="Minutes that converting an export may take. An export that takes longer is not loaded.",
        ),
    ]
    import_output_mb: Annotated[
        int,
        Setting(
            default=4096,
            range=(1, 1_048_576),
            help="Size of a converted export, in MiB. An export that becomes larger is not loaded.",
        ),
    ]
    tick_ms: Annotated[
        int,
        Setting(
            default=250,
            range=(10, 60000),
            help="How often the service advances the horizon when no load is running, in milliseconds.",
        ),
    ]
    grace_sec: Annotated[
        int,
        Setting(default=10, range=(0, 86400), help="Seconds that a stopping service waits for requests in progress."),
    ]


def _declared() -> Iterator[Setting]:
    for name, annotation in get_type_hints(Settings, include_extras=True).items():
        for declaration in get_args(annotation):
            if isinstance(declaration, Setting):
                yield replace(declaration, name=name)


TABLE = tuple(_declared())
BY_NAME = {setting.name: setting for setting in TABLE}
MAX_WORKERS = BY_NAME["workers"].range[1]


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
    if not values["store"].strip():
        raise SettingsError(
            "the setting `store` is blank. Set it to a folder or a database URL, or remove it.", "store"
        )
    masked = without_password(values["store"])
    if not values["store"].startswith(DATABASES) and (_SCHEME.match(values["store"]) or masked != values["store"]):
        message = f"store must be a folder or a URL that starts with {DATABASES[0]}, not {masked!r}."
        raise SettingsError(message, "store")
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


def read_secret(settings: Settings, is_built: Callable[[], bool]) -> bytes:
    """Return the deployment secret. A missing file is created, unless the store was already built with a secret."""
    file = settings.secret_file
    if not settings.secret and not file.exists() and is_built():
        raise SettingsError(
            f"the deployment secret {file} is missing, but this store was built with a secret. "
            "Restore the file from a backup, or set COUNTERFOIL_SECRET to the original secret: "
            "a new secret would change every member token."
        )
    try:
        secret = settings.secret.encode() if settings.secret else read_or_create_secret(file)
    except OSError as error:
        raise SettingsError(f"cannot read or create the deployment secret {file}: {error.strerror}.") from error
    if len(secret) < MIN_SECRET_BYTES:
        raise SettingsError(
            f"the deployment secret must be at least {MIN_SECRET_BYTES} bytes long. "
            "If the store already has data, restore the original secret. Otherwise, choose a longer one."
        )
    return secret


def mask(name: str, value: object) -> str:
    return "***" if BY_NAME[name].is_secret and value else without_password(str(value))


def display_value(settings: Settings, name: str) -> str:
    """Return the value of a setting with secrets masked."""
    return mask(name, settings.database if name == "store" and settings.database else getattr(settings, name))


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found = tomllib.loads(read_promptly(file).decode())
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}.") from error
    unknown = ", ".join(sorted(set(found) - set(BY_NAME)))
    if unknown:
        raise SettingsError(
            f"{file} contains unknown settings: {unknown}. Run `counterfoil settings` to list all settings."
        )
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


def _require(is_met: object, message: str, *names: str) -> None:
    if not is_met:
        raise SettingsError(message, *names)


def _check(values: Mapping[str, Any]) -> None:
    prefix, api_url, timezone = values["prefix"], values["api_url"], values["timezone"]
    is_path = not prefix or (prefix.startswith("/") and not prefix.endswith("/"))
    _require(is_path, f"prefix must be empty, or start with a slash and not end with one; it is {prefix!r}.", "prefix")
    is_url = not api_url or _API_URL.fullmatch(api_url)
    _require(is_url, f"api_url must be a URL such as https://api.example.com/ext/v1, not {api_url!r}.", "api_url")
    for name in ("host", "admin_host", "console_host"):
        blank = f"{name} is blank. Set it to an address, such as 127.0.0.1, or 0.0.0.0 for all IPv4 interfaces."
        _require(values[name].strip(), blank, name)
    if timezone != BY_NAME["timezone"].default:
        unknown = f"timezone must be an IANA name such as Asia/Bangkok or UTC, not {timezone!r}."
        _require(zone_named(timezone), unknown, "timezone")
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
        is_url = not values[name] or _is_url(values[name])
        _require(is_url, f"{name} must be a URL with a host that starts with https:// or http://.", name)
    header, template = values["notify_header"], values["notify_template"]
    is_header = not header or _HEADER.fullmatch(header)
    _require(is_header, "notify_header must be a name and a value, as in `Authorization: Bearer TOKEN`.")
    if template:
        try:
            msgspec.json.decode(template)
        except msgspec.DecodeError as error:
            raise SettingsError(f"notify_template is not valid JSON: {error}.", "notify_template") from None
        _require("{text}" in template, "notify_template must contain {text}, where the text is put.", "notify_template")


def _is_url(text: str) -> bool:
    """Return whether a text is a URL of HTTP that names a host."""
    if not text.startswith(("http://", "https://")) or not is_address(text):
        return False
    try:
        return bool(urlsplit(text).hostname)
    except ValueError:
        return False


def _check_servers(database: str, meter: str) -> None:
    starts = ", ".join(METERS)
    is_meter = not meter or meter.startswith(METERS)
    _require(is_meter, f"meter must start with one of {starts}, not {scheme_of(meter)}.")
    for name, address in (("store", database), ("meter", meter)):
        if address:
            check_address(name, address)
    is_shared = database or not meter
    _require(is_shared, "a shared meter requires a shared store. Set store to postgresql://..., or remove meter.")


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
