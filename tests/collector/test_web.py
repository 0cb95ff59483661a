"""Promises D4 and D7 at the server: one answer for each query, nobody gets in, nothing of a person is kept."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from collecting import answered_lines
from serving_surveys import WORDS, needs_server, served

import noisewise as nw
from noisewise.errors import SurveyError
from noisewise.online.simulate import simulated_answer

needs_server()

import httpx  # noqa: E402

from noisewise.collector.board import Board, invite  # noqa: E402
from noisewise.collector.limits import SALT_SECONDS, Limiter  # noqa: E402
from noisewise.collector.signing import is_signed  # noqa: E402
from noisewise.collector.web import ServerSettings, page, page_digest  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with served(tmp_path_factory.mktemp("open")) as server:
        yield server


@pytest.fixture(scope="module")
def invited(tmp_path_factory):
    with served(tmp_path_factory.mktemp("invited"), words=replace(WORDS, invited=True)) as server:
        yield server


def asked(server, **body):
    return httpx.post(f"{server.url}/api/query", json=body, timeout=30)


def answered(server, id, value):
    return httpx.post(f"{server.url}/api/answer", json={"id": id, "value": value}, timeout=30)


def refusal(response, status):
    assert response.status_code == status, response.text
    sentence = response.json()["error"]
    assert sentence.endswith((".", "..."))
    return sentence


# ---- asking and answering ----


def test_a_query_goes_out_signed_and_an_answer_counts_once(place, rng):
    body = asked(place).json()
    query = nw.Query.from_dict(body["query"])
    assert is_signed(place.key, body["signed"], body["signature"])
    signed = json.loads(body["signed"])
    assert signed["query"] == body["query"]
    assert signed["expires"] == body["expires"]
    assert signed["survey"]["name"] == place.store.name
    assert not is_signed(place.key, body["signed"].replace('"low": 0.0', '"low": 1.0'), body["signature"])
    value = simulated_answer(rng, query, 37.0).value
    first = answered(place, query.id, value)
    assert first.status_code == 200
    assert first.json()["counted"] is True
    assert answered(place, query.id, value).json() == first.json()
    other = answered(place, query.id, value + 1)  # of another device, say: the first answer stays, and this one is told
    assert (other.status_code, other.json()) == (200, {"receipt": "", "counted": False})
    assert answered(place, query.id, value).json() == first.json()
    assert [one for one in answered_lines(place.store) if one[0] == query.id] == [(query.id, value)]


def test_many_at_once_get_a_query_each(place, rng):
    with ThreadPoolExecutor(16) as pool:
        bodies = list(pool.map(lambda _: asked(place).json(), range(48)))
    ids = [body["query"]["id"] for body in bodies]
    assert len(set(ids)) == 48


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{", b'{"id": "x"}', b'{"value": 1}', b'{"id": 7, "value": 1}',
        b'{"id": "x", "value": 1.5}',
        b'{"id": "x", "value": true}', b'{"id": "x", "value": "1"}', b'{"id": "x", "value": NaN}',
        b'{"id": "x", "value": null}',
        b'{"id": "x", "value": 1, "more": 2}', b"\xff\xfe", b"[" * 2000, b'{"id": "' + b"x" * 300 + b'", "value": 1}',
    ],
)  # fmt: skip
def test_malformed_answers_are_refused_in_a_sentence(place, body):
    before = len(answered_lines(place.store))
    refusal(httpx.post(f"{place.url}/api/answer", content=body), 400)
    assert len(answered_lines(place.store)) == before


def test_oversized_bodies_are_refused_before_they_are_read(place):
    refusal(httpx.post(f"{place.url}/api/answer", content=b" " * 5_000_000), 413)
    refusal(httpx.post(f"{place.url}/api/query", content=b" " * 3000), 413)


def test_an_answer_that_nobody_asked_for_is_refused(place):
    with place.store.session() as session:
        (pooled,) = session.rows("SELECT id FROM queries WHERE state = 'pooled' LIMIT 1")[0]
    for id in ("nothing", pooled):
        refusal(answered(place, id, 1), 400)
    body = asked(place).json()
    refusal(answered(place, body["query"]["id"], 2**62), 400)  # farther out than its noise ever reaches
    refusal(answered(place, body["query"]["id"], 10**30), 400)


def test_other_methods_and_places_are_refused(place):
    assert httpx.get(f"{place.url}/api/answer").status_code == 405
    assert httpx.get(f"{place.url}/api/query?invite=x").status_code == 405
    assert httpx.get(f"{place.url}/pages/respond.html").status_code == 404
    assert httpx.get(f"{place.url}/../etc/passwd").status_code == 404


# ---- invitations ----


def test_an_invitation_is_bound_to_its_first_query_for_good(invited, rng):
    one, other = invite(invited.store, 2)
    refusal(asked(invited), 403)
    refusal(asked(invited, invite="guessed"), 403)
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda _: asked(invited, invite=one).json(), range(16)))
    (query,) = {body["query"]["id"]: body["query"] for body in bodies}.values()
    assert not any(body["answered"] for body in bodies)
    assert asked(invited, invite=other).json()["query"]["id"] != query["id"]
    value = simulated_answer(rng, nw.Query.from_dict(query), 37.0).value
    assert answered(invited, query["id"], value).status_code == 200
    again = asked(invited, invite=one).json()
    assert again["answered"]
    assert again["query"]["id"] == query["id"]


def test_only_a_hash_of_an_invitation_is_stored_and_no_key_to_its_answer(invited, rng):
    (one,) = invite(invited.store, 1)
    body = asked(invited, invite=one).json()
    answered(invited, body["query"]["id"], simulated_answer(rng, nw.Query.from_dict(body["query"]), 37.0).value)
    with invited.store.session() as session:
        columns = [row[1] for row in session.rows("PRAGMA table_info(invitations)")]
        rows = session.rows("SELECT hash, used, sealed FROM invitations WHERE used = 1")
        everything = [
            str(cell)
            for (table,) in session.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
            for row in session.rows(f"SELECT * FROM {table}")
            for cell in row
        ]
        kept = b"".join(bytes(row[2]) for row in rows)
    assert columns == ["hash", "used", "sealed"]
    assert body["query"]["id"].encode() not in kept
    assert not any(one in cell for cell in everything)
    files = b"".join(
        path.read_bytes() for path in Path(invited.store.database.connect.__closure__[0].cell_contents).parent.iterdir()
    )
    assert one.encode() not in files


def test_an_invitation_that_asks_too_often_is_held_back(tmp_path):
    with served(tmp_path, words=replace(WORDS, invited=True), settings=ServerSettings(rate=4), learns=False) as server:
        (one,) = invite(server.store, 1)
        statuses = [asked(server, invite=one).status_code for _ in range(4)]
        assert statuses == [200] * 2 + [429] * 2


# ---- who gets in ----


def test_no_act_of_the_operator_without_the_token(tmp_path):
    with served(tmp_path) as server:
        wrong = {"Authorization": "Bearer " + "x" * 32}
        right = {"Authorization": f"Bearer {server.token}"}
        foreign = {**right, "Origin": "https://elsewhere.example"}
        for headers, status in (({}, 401), (wrong, 401), (foreign, 403), ({"Authorization": "Basic x"}, 401)):
            refusal(httpx.post(f"{server.url}/api/close", headers=headers), status)
        assert not server.store.standing().is_closed
        refusal(httpx.get(f"{server.url}/api/export"), 403)
        refusal(httpx.get(f"{server.url}/api/state", headers=wrong), 401)
        public = httpx.get(f"{server.url}/api/state").json()
        assert public["outstanding"] is None
        assert public["lag"] is None
        asked(server)
        assert httpx.get(f"{server.url}/api/state", headers=right).json()["outstanding"] == 1
        assert httpx.post(f"{server.url}/api/close", headers=right).json() == {"closed": True}
        refusal(asked(server), 410)


def test_a_new_token_ends_the_old_one(place):
    board = Board(place.store)
    old, new = board.new_admin_token(), board.new_admin_token()
    get = lambda token: httpx.get(f"{place.url}/api/state", headers={"Authorization": f"Bearer {token}"})  # noqa: E731
    refusal(get(old), 401)
    assert get(new).status_code == 200
    assert new not in (board.read("admin") or "")


def test_other_origins_may_answer_unless_the_operator_says_otherwise(place, tmp_path):
    foreign = {"Origin": "https://elsewhere.example"}
    preflight = httpx.options(f"{place.url}/api/query", headers=foreign)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in preflight.headers
    assert httpx.post(f"{place.url}/api/query", json={}, headers={"Origin": "null"}).status_code == 200  # a saved copy
    for path in ("/api/state", "/", "/live"):
        assert "access-control-allow-origin" not in httpx.get(place.url + path, headers=foreign).headers
    settings = ServerSettings(rate=10_000, origins=("https://own.example",))
    with served(tmp_path, settings=settings, learns=False) as server:
        refusal(httpx.post(f"{server.url}/api/query", json={}, headers=foreign), 403)
        assert httpx.options(f"{server.url}/api/query", headers=foreign).status_code == 403
        own = httpx.post(f"{server.url}/api/query", json={}, headers={"Origin": "https://own.example"})
        assert own.headers["access-control-allow-origin"] == "https://own.example"
        assert httpx.post(f"{server.url}/api/query", json={}, headers={"Origin": server.url}).status_code == 200


def test_an_address_that_asks_too_often_is_held_back_whatever_it_forwards(tmp_path):
    with served(tmp_path, settings=ServerSettings(rate=1), learns=False) as server:
        forwarded = [{"X-Forwarded-For": f"10.0.0.{k}"} for k in range(3)]
        statuses = [httpx.post(f"{server.url}/api/query", json={}, headers=h).status_code for h in forwarded]
        assert statuses == [200] + [429] * 2
    with served(tmp_path, settings=ServerSettings(rate=1, proxies=("127.0.0.1",)), learns=False) as server:
        statuses = [httpx.post(f"{server.url}/api/query", json={}, headers=h).status_code for h in forwarded]
        assert statuses == [200] * 3


def test_a_limiter_forgets_addresses_and_their_names():
    now = [0.0]
    limiter = Limiter(60, clock=lambda: now[0])
    assert [limiter.admits("192.0.2.7") for _ in range(61)] == [True] * 60 + [False]
    now[0] += 1.0
    assert limiter.admits("192.0.2.7")
    assert not limiter.admits("192.0.2.7")
    assert limiter.admits("192.0.2.8")
    assert "192.0.2" not in repr(vars(limiter))
    before = set(limiter._left)
    now[0] += SALT_SECONDS + 1
    assert limiter.admits("192.0.2.7")
    assert not before & set(limiter._left)


# ---- what is shown ----


def test_pages_come_with_strict_headers_and_no_cookie(place):
    for path in ("/", "/live"):
        response = httpx.get(place.url + path)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    for path in ("/", "/live", "/api/state", "/healthz", "/page.sha256"):
        response = httpx.get(place.url + path)
        assert "set-cookie" not in response.headers
        assert "server" not in response.headers


def test_the_page_is_one_file_with_the_published_digest_and_its_own_policy(place):
    body = httpx.get(f"{place.url}/").content
    assert body == page()
    assert httpx.get(f"{place.url}/page.sha256").text.split()[0] == hashlib.sha256(body).hexdigest() == page_digest()
    for outside in (b"src=", b'href="http', b"@import", b"url(", b"import(", b"Math.random", b"document.cookie"):
        assert outside not in body
    checked = subprocess.run([sys.executable, ROOT / "tools/pages.py", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_the_stream_brings_the_picture(place):
    with httpx.stream("GET", f"{place.url}/api/stream", timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        line = next(line for line in response.iter_lines() if line.startswith("data: "))
    assert "answers" in json.loads(line[6:])


def test_after_the_closing_everyone_may_have_the_release(tmp_path, rng, monkeypatch):
    """Made once, however many ask for it again and again: it costs a reading of the whole log."""
    from noisewise.collector import web

    made, export = [], web.export
    monkeypatch.setattr(web, "export", lambda store: made.append(store) or export(store))
    with served(tmp_path) as server:
        for _ in range(12):
            query = nw.Query.from_dict(asked(server).json()["query"])
            answered(server, query.id, simulated_answer(rng, query, 40.0).value)
        httpx.post(f"{server.url}/api/close", headers={"Authorization": f"Bearer {server.token}"})
        refusal(answered(server, asked_before(server), 3), 410)
        with ThreadPoolExecutor(4) as pool:
            some = list(pool.map(lambda _: httpx.get(f"{server.url}/api/export", timeout=30), range(8)))
        response = some[0]
        assert response.status_code == 200
        assert {one.content for one in some} == {response.content}
        assert len(made) == 1
        path = tmp_path / "all.release.json"
        path.write_bytes(response.content)
        released = nw.SurveyRelease.load(path)
        assert released.answers == 12
        assert released.simulated


def asked_before(server):
    """A query that went out and was never answered."""
    with server.store.session() as session:
        found = session.rows("SELECT id FROM queries WHERE state = 'asked' LIMIT 1")
        if found:
            return found[0][0]
        id = session.rows("SELECT id FROM queries WHERE state = 'pooled' LIMIT 1")[0][0]
        session.run("UPDATE queries SET state = 'asked' WHERE id = ?", id)
        return id


def test_nothing_of_a_person_is_logged(tmp_path, capfd, rng):
    """Invitations, ids and values of visitors are on neither stream, refused ones included."""
    with served(tmp_path, words=replace(WORDS, invited=True)) as server:
        (one,) = invite(server.store, 1)
        body = asked(server, invite=one).json()
        query = nw.Query.from_dict(body["query"])
        value = simulated_answer(rng, query, 37.0).value
        answered(server, query.id, value)
        asked(server, invite="canary-guess")
        answered(server, "canary-id", 123456789)
        httpx.post(f"{server.url}/api/answer", content=b"canary-body")
        httpx.get(f"{server.url}/canary-path?invite=canary-query")
    told = "".join(capfd.readouterr())
    for secret in (one, query.id, str(value), "canary", "123456789"):
        assert secret not in told


def test_a_store_that_fails_is_told_and_nothing_is_receipted(place, monkeypatch):
    """A full disk, say: 503 and a sentence, then the same answer counts."""
    from noisewise.collector import desk

    body = asked(place).json()
    failing = threading.Event()
    failing.set()
    append = desk.Session.append

    def broken(self, *given):
        if failing.is_set():
            raise self.database.failures[0]("disk is full")
        return append(self, *given)

    monkeypatch.setattr(desk.Session, "append", broken)
    monkeypatch.setattr(desk, "PAUSE_SECONDS", 0.001)
    said = refusal(answered(place, body["query"]["id"], 5), 503)
    assert "send the same one again" in said
    assert place.store.where not in said  # where the store stands is nobody's business
    failing.clear()
    assert answered(place, body["query"]["id"], 5).json()["counted"]


def test_postgres_keeps_words_keys_and_invitations(rng):
    """The same acts on the other database, a crowd's pool among them."""
    from collecting import fresh_database, postgres
    from serving_surveys import new_served_store

    from noisewise.collector.board import hand_out
    from noisewise.collector.bulletin import operator_numbers
    from noisewise.collector.crowd import Crowd
    from noisewise.collector.desk import Desk
    from noisewise.collector.learner import Learner
    from noisewise.collector.signing import SigningKey

    with postgres() as url:
        board, key, _ = new_served_store(fresh_database(url), words=replace(WORDS, invited=True))
        assert Board.open(board.store).words == replace(WORDS, invited=True)
        assert SigningKey.of(board).public == key
        learner = Learner(board.store)
        learner.step()
        (one,) = invite(board.store, 1)
        with Desk(board.store) as desk:
            first, second = (desk.done(lambda s: hand_out(desk, s, one)) for _ in range(2))
            assert first == second
            query = nw.Query.from_dict(json.loads(first.query))
            value = simulated_answer(rng, query, 37.0).value
            receipt = desk.done(lambda s: desk.take(s, query.id, value))
            assert receipt.is_counted
            assert desk.done(lambda s: hand_out(desk, s, one)).is_answered
            with board.store.session() as session:
                crowd = Crowd(learner)
                crowd.look(session)
                while desk.done(desk.hand_out) is not None:
                    pass
                crowd.look(session)
        assert board.store.standing().pooled == 32
        assert operator_numbers(board, board.store)["received"] == 1


def test_the_page_travels_packed_and_is_the_same_file(place):
    plain = httpx.get(place.url, headers={"Accept-Encoding": "identity"})
    packed = httpx.get(place.url, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < 0.5 * len(plain.content)
    assert packed.content == plain.content == page()
    assert packed.headers["content-security-policy"] == plain.headers["content-security-policy"]
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


def test_workers_share_a_port_and_another_server_there_is_noticed():
    """Two sockets at one port both get visitors; a second server is refused with a sentence."""
    from noisewise.collector.serving import bound_socket, reserved_port

    with reserved_port("127.0.0.1", 0) as reserved:
        port = reserved.getsockname()[1]
        one, two = (bound_socket("127.0.0.1", port, is_shared=True) for _ in range(2))
        with one, two:
            for worker in (one, two):
                assert worker.proto == socket.IPPROTO_TCP  # by which asyncio knows to send small pieces at once
                worker.listen()
                worker.setblocking(False)
            with pytest.raises(SurveyError, match="Choose another port"):
                reserved_port("127.0.0.1", port)
            visitors = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
            shares = [accepted(one), accepted(two)]
            for visitor in visitors:
                visitor.close()
    assert sum(shares) == 60
    assert min(shares) > 0  # by chance 2 in 2^60


def accepted(worker):
    """How many wait at a socket."""
    count = 0
    while True:
        try:
            worker.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1
