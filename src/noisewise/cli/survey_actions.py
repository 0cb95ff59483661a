"""What the survey commands do: begin a survey, serve it, invite people, watch it, close it, publish its answers."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from json import loads
from pathlib import Path

from noisewise.cli.actions import console
from noisewise.cli.survey_spec import SurveySpec, template
from noisewise.collector.board import Board, invite
from noisewise.collector.bulletin import operator_numbers
from noisewise.collector.desk import Desk
from noisewise.collector.export import export
from noisewise.collector.learner import replay
from noisewise.collector.serving import serve
from noisewise.collector.signing import SigningKey
from noisewise.collector.store import create, open_store
from noisewise.collector.web import page, page_digest
from noisewise.errors import InvalidSpec, SurveyError
from noisewise.files import OWN, checked_place, write_whole
from noisewise.inference.told import number_words
from noisewise.online.store import settings_to_dict
from noisewise.printable import printable

WATCH_SECONDS = 1.0


def write_spec(file: Path, given: Mapping[str, str | None]) -> None:
    """Write a survey's spec to begin with, and check it."""
    if file.exists():
        raise InvalidSpec(f"{file} is there already; it was not changed. Give another name.", where="survey")
    write_whole(checked_place(file), template(given).encode())
    try:
        SurveySpec.read(file).new_survey(seed=0)
    except InvalidSpec:
        file.unlink()
        raise
    console.print(f"Written to {file}. Change what it says, then: noisewise survey serve {file}", markup=False)


def serve_survey(file: Path, *, store: str | None, new_admin_token: bool) -> None:
    """Serve a survey until interrupted; its store is made where there is none."""
    spec = with_store(SurveySpec.read(file), store)
    token = begin(spec, simulated=False, wants_token=new_admin_token)
    told = announcement(spec, token)
    serve(spec.where, spec.listening(), ready=lambda _: console.print(told, markup=False))


def invite_people(file: Path, count: int, out: Path | None) -> None:
    """Make invitation links."""
    spec = SurveySpec.read(file)
    place = None if out is None else checked_place(out, "--out")
    if place is not None and place.exists():
        raise InvalidSpec(
            f"{printable(place)} is there already, and links are shown only once: give another name. No invitation "
            "was made.",
            where="--out",
        )
    store = spec.store()
    board = Board.open(store)
    if not board.words.invited:
        raise InvalidSpec(
            "This survey is open to everyone with its link, so an invitation would keep nobody out. Write invited = "
            f"true in [survey] of {file} and serve it again.",
            where="survey",
        )
    links = [link(spec, board, f"&i={one}") for one in invite(store, count)]
    if place is None:
        print("\n".join(links))
        return
    write_whole(place, ("\n".join(links) + "\n").encode(), mode=OWN)
    console.print(f"{count} links written to {place}. Only their hashes are kept.", markup=False)


def watch_survey(file: Path, *, once: bool) -> None:
    """Follow a survey on the terminal."""
    store = SurveySpec.read(file).store()
    board, last = Board.open(store), ""
    while True:
        shown, numbers = loads(board.read("shown") or "{}"), operator_numbers(board, store)
        known = "  ".join(
            f"{name} {number_words(middle, low, high, None)} [{number_words(low, low, high, None)}, "
            f"{number_words(high, low, high, None)}]"
            for name, (low, middle, high) in shown.get("intervals", {}).items()
        )
        is_closed = store.standing().is_closed
        line = (
            f"{numbers['received']} answers, {numbers['outstanding']} outstanding, {numbers['lag']} lines behind"
            f"{', closed' if is_closed else ''}   {known}"
        )
        if line != last:
            console.print(line, markup=False)
        last = line
        if once or is_closed:
            return
        time.sleep(WATCH_SECONDS)


def close_survey(file: Path) -> None:
    """Close a survey."""
    store = SurveySpec.read(file).store()
    with Desk(store) as desk:
        desk.close()
    console.print(f"Closed after {store.standing().answers} answers.", markup=False)


def export_survey(file: Path, out: Path) -> None:
    """Write all answers as one release file."""
    place = checked_place(out, "--out")
    release = export(SurveySpec.read(file).store())
    release.save(place)
    console.print(f"{release}. Written to {place}.", markup=False)


def replay_survey(file: Path) -> None:
    """The posterior again from the log alone."""
    store = SurveySpec.read(file).store()
    state = replay(store)
    for name, (mean, sd) in state.moments(store.engine.target).items():
        console.print(f"{name}  {mean:.6g} ± {sd:.3g}", markup=False)
    arrays = (state.particles.position, state.particles.log_weight)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    console.print(f"{state.answers} answers; particles sha256:{digest}", markup=False)


def show_page(out: Path | None) -> None:
    """The SHA-256 of the respondent's page, and the page itself."""
    if out is not None:
        write_whole(checked_place(out, "--out"), page())
    print(f"{page_digest()}  {'noisewise-respond.html' if out is None else printable(out)}")


# ---- what several commands do ----


def with_store(spec: SurveySpec, store: str | None) -> SurveySpec:
    """The spec with another store."""
    if store is None:
        return spec
    given = str(Path(store).absolute()) if "://" not in store else store
    return SurveySpec(spec.path, spec.survey, spec.server.model_copy(update={"store": given}))


def begin(spec: SurveySpec, *, simulated: bool, wants_token: bool) -> str | None:
    """Open a survey's store, made where there is none; the operator's token where a new one was made."""
    words, survey = spec.words(), spec.new_survey()
    try:
        found = open_store(spec.where)
    except SurveyError:
        if "://" not in spec.where and os.path.exists(spec.where):
            raise
        found = create(spec.where, survey, simulated=simulated)
    if settings_to_dict(found.engine.settings) != settings_to_dict(survey._engine.settings):
        raise InvalidSpec(
            f"The store {printable(found.where)!r} holds another survey: its population, guarantee, queries or "
            f"particles are not those of {spec.path}. Name another store in [server], or take the spec back.",
            where="server",
        )
    board = Board.open(found)
    is_new = board.read("admin") is None
    board.put_words(words)
    SigningKey.of(board)
    return board.new_admin_token() if is_new or wants_token else None


def link(spec: SurveySpec, board: Board, rest: str = "") -> str:
    """The link that people open: what stands behind # never reaches a server's log."""
    return f"{spec.url}/#k={SigningKey.of(board).public}{rest}"


def announcement(spec: SurveySpec, token: str | None) -> str:
    """What the operator reads when the server is up."""
    board = Board(spec.store())
    lines = [f"{board.words.title}", f"  live page      {spec.url}/live"]
    if board.words.invited:
        lines.append(f"  invitations    noisewise survey invite {printable(spec.path)} 10")
    else:
        lines.append(f"  people open    {link(spec, board)}")
    if token is None:
        lines.append("  your own page  by the link shown at the first start; --new-admin-token makes another")
    else:
        lines.append(f"  your own page  {spec.url}/live#admin={token}")
        lines.append("                 (keep this link: only a hash of its token is stored)")
    lines.append(f"  page sha256    {page_digest()}")
    return "\n".join(lines)
