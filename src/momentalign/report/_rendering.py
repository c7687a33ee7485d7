"""Self-contained HTML pages with charts: templates, styles, the charts' library. They load nothing from the network."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

import momentalign
from momentalign._format import printable
from momentalign.report._chapters import Panel, TableWithChart
from momentalign.report._style import DARK, LIGHT, chart_config


def render_page(template: str, **values: Any) -> str:
    """Render a page; names from data are escaped, in JSON too.

    Args:
        template: Name of a template that extends `base.html.jinja`.
        **values: Variables of the template.
    """
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_controls,
        loader=PackageLoader(__package__, "templates"),
    )
    environment.globals |= {"spec": _spec_json, "common": _common_notes}
    script, library = _template("page.js"), vega_javascript()
    return environment.get_template(template).render(
        **values,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src {_csp_hash(library)} {_csp_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        style=_stylesheet(),
        config=chart_config(page=True),
        library=library,
        script=script,
        licences=_template("licences.txt"),
        version=momentalign.__version__,
        created=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
    )


@cache
def vega_javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed bundled as one script that defines a single global name."""
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = wanted in vl_convert.get_vegalite_versions()
    bundle = vl_convert.javascript_bundle("window.momentalignEmbed = vegaEmbed;", vl_version=wanted if known else None)
    return "(() => {\n" + bundle.replace("</script", "<\\/script") + "\n})();"


def _spec_json(panel: Panel) -> Markup:
    text = json.dumps(
        _without_controls(panel.spec(page=True)), separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    # Characters that could end a script element or are special in JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _without_controls(value: Any) -> Any:
    """Escape control characters of all texts, at any depth, but not of Markup."""
    if isinstance(value, dict):
        return {_without_controls(key): _without_controls(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_controls(part) for part in value]
    return printable(value, keep="\n") if type(value) is str else value


def _stylesheet() -> str:
    sheet = _template("page.css")
    for mark, colours in (("/*light*/", LIGHT), ("/*dark*/", DARK)):
        sheet = sheet.replace(mark, " ".join(f"--c{index}: {colour};" for index, colour in enumerate(colours)))
    return sheet


def _common_notes(results: list[TableWithChart]) -> list[str]:
    """Notes that all tables share, shown once above them."""
    sections = [result.section for result in results]
    if len(sections) < 2:
        return []
    return [note for note in sections[0].notes if all(note in section.notes for section in sections)]


def _csp_hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
