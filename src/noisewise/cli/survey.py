"""noisewise survey: begin a survey, serve it, invite people, watch it, close it, publish its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

survey_app = typer.Typer(no_args_is_help=True, help="A private survey: serve it, invite people, watch what is learnt.")
SurveyFile = Annotated[Path, typer.Argument(help="The survey's spec (TOML).", metavar="SURVEY.toml")]


@survey_app.command()
def new(
    file: SurveyFile,
    title: Annotated[str | None, typer.Option("--title", help="The survey's title.")] = None,
    question: Annotated[str | None, typer.Option("--question", help="The question, as people read it.")] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="The unit of the answer.")] = None,
    population: Annotated[str | None, typer.Option("--population", help="What is believed before.")] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="What every answer costs.")] = None,
    close: Annotated[str | None, typer.Option("--close", help="When to stop, in words.")] = None,
) -> None:
    """Write a survey's spec to begin with, and check it."""
    from noisewise.cli.survey_actions import write_spec

    given = {"title": title, "question": question, "unit": unit, "population": population}
    write_spec(file, {**given, "epsilon": epsilon, "close": close})


@survey_app.command()
def serve(
    file: SurveyFile,
    store: Annotated[str | None, typer.Option("--store", help="In place of the spec's store.", metavar="URL")] = None,
    new_admin_token: Annotated[
        bool, typer.Option("--new-admin-token", help="Make the operator's token anew; the old one ends.")
    ] = False,
) -> None:
    """Serve a survey until interrupted; its store is made where there is none."""
    from noisewise.cli.survey_actions import serve_survey

    serve_survey(file, store=store, new_admin_token=new_admin_token)


@survey_app.command()
def invite(
    file: SurveyFile,
    count: Annotated[int, typer.Argument(help="How many invitations.", metavar="N")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the links to this file (mode 0600).")] = None,
) -> None:
    """Make invitation links: each is good for one answer. They are shown now and never again."""
    from noisewise.cli.survey_actions import invite_people

    invite_people(file, count, out)


@survey_app.command()
def watch(
    file: SurveyFile,
    once: Annotated[bool, typer.Option("--once", help="Say how it stands, and stop.")] = False,
) -> None:
    """Follow a survey on the terminal: answers, what is known, what is outstanding."""
    from noisewise.cli.survey_actions import watch_survey

    watch_survey(file, once=once)


@survey_app.command()
def close(file: SurveyFile) -> None:
    """Close a survey: nobody is asked and no answer is taken any more."""
    from noisewise.cli.survey_actions import close_survey

    close_survey(file)


@survey_app.command()
def export(
    file: SurveyFile, out: Annotated[Path, typer.Option("--out", help="Where the release goes (JSON).")]
) -> None:
    """Write all answers as one release file, which `noisewise show` and `noisewise infer` read."""
    from noisewise.cli.survey_actions import export_survey

    export_survey(file, out)


@survey_app.command()
def replay(file: SurveyFile) -> None:
    """The posterior again from the log alone, and the fingerprint by which two replays are compared."""
    from noisewise.cli.survey_actions import replay_survey

    replay_survey(file)


@survey_app.command()
def page(out: Annotated[Path | None, typer.Option("--out", help="Also write the page to this file.")] = None) -> None:
    """The SHA-256 of the respondent's page, and the page itself to be kept or served from elsewhere."""
    from noisewise.cli.survey_actions import show_page

    show_page(out)


@survey_app.command()
def demo(
    people: Annotated[int, typer.Option("--people", help="How many simulated people answer.")] = 300,
    port: Annotated[int, typer.Option("--port", help="0 takes any that is free.")] = 0,
    at_once: Annotated[int, typer.Option("--at-once", help="How many answer at the same time.")] = 4,
    pause: Annotated[float, typer.Option("--pause", help="Seconds between two answers of one of them.")] = 0.2,
    stay: Annotated[bool, typer.Option("--stay/--leave", help="Keep the pages up when all have answered.")] = True,
) -> None:
    """Serve a survey of simulated people in a temporary folder; open the live page and answer it yourself, too."""
    from noisewise.cli.survey_demo import run_demo

    run_demo(people=people, port=port, at_once=at_once, pause=pause, stay=stay)
