"""The table of the API's routes. The application, the OpenAPI document and the page that shows it are made from it."""

from __future__ import annotations

from typing import Final

from services.admin.api.calls import Route, Storing
from services.admin.api.documents import (
    AuditPage,
    CollectionBody,
    CollectionPage,
    EntryPage,
    KeyBody,
    KeyList,
    Nothing,
    PersonBody,
    PersonChange,
    PersonPage,
    QuestionPage,
    RecipePage,
    ResultList,
    SignatureBody,
    SignInBody,
)
from services.admin.handlers import (
    acts,
    consent,
    fleet,
    jobs,
    live,
    log,
    openid,
    passkeys,
    people,
    questions,
    recipes,
    series,
    sessions,
)
from services.admin.people.access_documents import (
    ActBody,
    AssertionBody,
    AuthorizationDocument,
    OpenIdBody,
    OpenIdReturn,
    OptionsDocument,
    PasskeyBody,
    PasskeyDocument,
    PasskeyList,
    PasskeyOptionsBody,
)
from services.admin.people.consent_documents import ConsentBody, WaitingInvitation
from services.admin.people.people import Permission
from services.admin.questions.fleet import FleetDocument
from services.admin.questions.series_documents import CensusPage, JobList, SeriesPage
from tacit.extension_points import ADMIN_ROUTES
from tacit.media_types import EVENT_STREAM
from tacit.recipe.writing.survey import Survey
from tacit.service.documents.admin import (
    CheckDocument,
    CollectionDocument,
    DesignDocument,
    QuestionDocument,
    RecipeDocument,
    SeriesDocument,
)
from tacit.service.documents.admin_log import KeysDocument, LedgerDocument, LogDocument, ProofDocument
from tacit.service.documents.admin_people import (
    ChangeDocument,
    ChangeList,
    InvitationDocument,
    NewKey,
    PersonDocument,
    SessionDocument,
)
from tacit.service.documents.operator import JobDocument

_READ, _WRITE, _OPERATE = Permission.READ, Permission.WRITE, Permission.OPERATE
_QUESTION = "/v1/questions/{id}"
_ONE: Final = {200: QuestionDocument}

ROUTES: Final = (
    Route(
        "POST", "/v1/questions", "question.create", "Write a draft.", questions.create, _WRITE, {201: QuestionDocument},
        body=Survey, storing=Storing.WRITE,
    ),
    Route(
        "GET", "/v1/questions", "question.list", "List questions, in the order in which they were written.",
        questions.list_questions, _READ, {200: QuestionPage}, paged=True, query=("state",),
    ),
    Route("GET", _QUESTION, "question.show", "One question, with its ETag.", questions.show_question, _READ, _ONE,
          problems=(404,)),
    Route(
        "PUT", _QUESTION, "question.edit", "Replace the text of a question, which becomes a draft again.",
        questions.edit, _WRITE, _ONE,
        body=Survey, problems=(404, 409, 412, 428), storing=Storing.WRITE, tagged=True,
    ),
    Route(
        "DELETE", _QUESTION, "question.delete", "Delete a draft.", questions.delete, _WRITE, {204: None},
        problems=(404, 409, 412, 428), storing=Storing.WRITE, tagged=True,
    ),
    Route(
        "POST", f"{_QUESTION}/check", "question.check",
        "The verdict of every rule on the recipe that the question would become now, with its cost and accuracy.",
        questions.check, _READ, {200: CheckDocument}, body=Nothing, problems=(404, 412, 501, 502),
        storing=Storing.NOTHING, tagged=True, computes=True,
    ),
    Route(
        "POST", "/v1/check", "text.check", "The same verdict on a text that is not stored, for its author.",
        questions.check_text, _READ, {200: CheckDocument}, body=Survey, problems=(502,), storing=Storing.NOTHING,
        computes=True,
    ),
    Route(
        "POST", "/v1/design", "text.design", "Compare the ways to ask a question: cost and accuracy of each.",
        questions.design, _READ, {200: DesignDocument}, body=Survey, storing=Storing.NOTHING, computes=True,
    ),
    Route(
        "POST", f"{_QUESTION}/submit", "question.submit", "Offer a complete question for approval.",
        questions.submit, _WRITE, _ONE, body=Nothing, problems=(404, 409, 412), storing=Storing.WRITE, tagged=True,
    ),
    Route(
        "POST", f"{_QUESTION}/approve", "question.approve",
        "Approve a question as it is. Its authors get 403 `urn:tacit:problem:own-draft`.",
        questions.approve, _READ, _ONE, body=ActBody, problems=(404, 409, 412), storing=Storing.WRITE, tagged=True,
    ),
    Route(
        "POST", f"{_QUESTION}/publish", "question.publish",
        "Fix the recipe of a question, sign it and put it into the log; 202 if a signature has to come from elsewhere.",
        questions.publish, _OPERATE, {200: QuestionDocument, 202: QuestionDocument}, body=ActBody,
        problems=(404, 409, 412, 501, 502), storing=Storing.NOTHING, tagged=True,
    ),
    Route(
        "POST", f"{_QUESTION}/signature", "question.sign", "Publish with a signature that was made elsewhere.",
        questions.sign, _OPERATE, _ONE, body=SignatureBody, problems=(404, 409, 502), storing=Storing.NOTHING,
    ),
    Route(
        "POST", f"{_QUESTION}/end", "question.end",
        "End a question: nobody waits for its results any more. Its entries in the log stay.",
        questions.end, _OPERATE, _ONE, body=Nothing, problems=(404, 409, 412), storing=Storing.WRITE, tagged=True,
    ),
    Route(
        "GET", "/v1/recipes", "recipe.list", "Recipes of the log, in its order.", recipes.list_recipes, _READ,
        {200: RecipePage}, problems=(502,), storing=Storing.NOTHING, paged=True,
    ),
    Route(
        "GET", "/v1/recipes/{hash}", "recipe.show",
        "One recipe: its body, opt-ins, and its yield against B as far as this organisation may know it.",
        recipes.show_recipe, _READ, {200: RecipeDocument}, problems=(404, 422, 502), storing=Storing.NOTHING,
    ),
    Route(
        "GET", "/v1/results", "result.list", "The releases of one recipe, or of all.", recipes.results, _READ,
        {200: ResultList}, problems=(404, 501, 502), storing=Storing.NOTHING, paged=True, query=("recipe",),
        formats=recipes.FORMATS,
    ),
    Route(
        "POST", "/v1/collections", "collection.ask", "Ask for a recipe's batch.", recipes.collect, _OPERATE,
        {201: CollectionDocument}, body=CollectionBody, problems=(404, 502), storing=Storing.NOTHING,
    ),
    Route(
        "GET", "/v1/collections", "collection.list", "Every collection.", recipes.collections, _READ,
        {200: CollectionPage}, problems=(404, 502), storing=Storing.NOTHING, paged=True,
    ),
    Route(
        "GET", "/v1/collections/{id}", "collection.show", "One collection.", recipes.collection, _READ,
        {200: CollectionDocument}, problems=(404, 502), storing=Storing.NOTHING,
    ),
    Route(
        "GET", "/v1/jobs", "job.list", "Jobs of this service and of the collector, and which of them are stuck.",
        jobs.list_jobs, _READ, {200: JobList}, problems=(502,), storing=Storing.NOTHING, paged=True,
    ),
    Route(
        "POST", "/v1/jobs/{id}/retry", "job.retry", "Try a job again now.", jobs.retry, _OPERATE,
        {202: JobDocument}, body=Nothing, problems=(404, 502), storing=Storing.NOTHING,
    ),
    Route("GET", "/v1/fleet", "fleet.show",
          "Counts of a staging deployment's devices, and whether all they sent was released; 404 elsewhere.",
          fleet.show_fleet, _READ, {200: FleetDocument}, problems=(404,), storing=Storing.NOTHING),
    Route("GET", "/v1/series", "series.list", "Series of the log, with their rounds in the log.",
          series.list_series, _READ,
          {200: SeriesPage}, problems=(502,), storing=Storing.NOTHING, paged=True),
    Route("GET", "/v1/series/{hash}", "series.show", "One series.", series.show_series, _READ, {200: SeriesDocument},
          problems=(404, 502), storing=Storing.NOTHING),
    Route(
        "POST", "/v1/series/{hash}/end", "series.end",
        "End a series in the log, for good: no further round is asked, and the slots and the room that it has not used "
        "are free. Published rounds go on, and its total stays charged until the last of them is over.",
        series.end, _OPERATE, {200: SeriesDocument}, body=Nothing, problems=(404, 502), storing=Storing.NOTHING,
    ),
    Route(
        "POST", "/v1/series/{hash}/rounds", "round.create",
        "Draft the next round of a series that searches for frequent texts. It follows from the releases before it and "
        "cannot be edited; 409 `urn:tacit:problem:round-waits` says why there is none now.",
        questions.create_round, _WRITE, {201: QuestionDocument}, body=Nothing, problems=(404, 409, 502),
        storing=Storing.NOTHING,
    ),
    *(route for routes in ADMIN_ROUTES.values() for route in routes),
    Route("GET", "/v1/censuses", "census.list", "Censuses whose shares the log has.", series.censuses, _READ,
          {200: CensusPage}, problems=(502,), storing=Storing.NOTHING, paged=True),
    Route("GET", "/v1/ledger", "ledger.show",
          "What each account has spent and has left, by which recipes, and how long the rest will last.",
          log.ledger, _READ, {200: LedgerDocument}, problems=(502,), storing=Storing.NOTHING),
    Route("GET", "/v1/keys", "keys.show",
          "The keys that questions depend on (analyst, gateways, issuers, certificates), and when they end.",
          log.keys, _READ, {200: KeysDocument}, problems=(502,), storing=Storing.NOTHING),
    Route("GET", "/v1/events", "event.stream", "All changes from now on, as server-sent events.", live.events, _READ,
          {200: None}, storing=Storing.NOTHING, media=EVENT_STREAM, seen=False),
    Route("GET", "/v1/log", "log.show", "The log's newest checkpoint, verified with every entry.", log.show_log, _READ,
          {200: LogDocument}, problems=(502,), storing=Storing.NOTHING),
    Route("GET", "/v1/log/entries", "log.entries", "The log's entries, in order.", log.entries, _READ,
          {200: EntryPage}, problems=(502,), storing=Storing.NOTHING, paged=True),
    Route("GET", "/v1/log/entries/{index}/proof", "log.proof", "The proof that an entry is in the log.", log.proof,
          _READ,
          {200: ProofDocument}, problems=(404, 502), storing=Storing.NOTHING),
    Route("GET", "/v1/people", "person.list", "People, in the order in which they were added.", people.list_people,
          Permission.PEOPLE, {200: PersonPage}, paged=True),
    Route(
        "POST", "/v1/people", "person.add", "Add a person.", people.add, Permission.PEOPLE,
        {201: PersonDocument, 202: ChangeDocument}, body=PersonBody, problems=(409,), storing=Storing.WRITE,
        prepare=people.hash_password,
    ),
    Route(
        "PATCH", "/v1/people/{id}", "person.change", "Change a person's role or password, or disable the person.",
        people.change, Permission.PEOPLE, {200: PersonDocument, 202: ChangeDocument},
        body=PersonChange, problems=(404, 409), storing=Storing.WRITE, prepare=people.hash_password,
    ),
    Route("GET", "/v1/people/{id}/keys", "key.list", "A person's keys, without their texts.", people.keys,
          Permission.PEOPLE, {200: KeyList}, problems=(404,)),
    Route(
        "POST", "/v1/people/{id}/keys", "key.give", "Give a person a key. Its text is shown only once.",
        people.give_key, Permission.PEOPLE, {201: NewKey, 202: ChangeDocument}, body=KeyBody,
        problems=(404, 409), storing=Storing.WRITE,
    ),
    Route(
        "DELETE", "/v1/people/{id}/keys/{key}", "key.take", "Revoke a key.", people.take_key,
        Permission.PEOPLE, {204: None}, problems=(404,), storing=Storing.WRITE,
    ),
    Route("GET", "/v1/changes", "change.list",
          "Changes of approvers and administrators that wait for consent or do not count yet, and the rule.",
          consent.list_changes, _READ, {200: ChangeList}),
    Route(
        "POST", "/v1/changes/{id}/consent", "change.consent",
        "Consent to a change. The administrator who asked for it gets 403 `urn:tacit:problem:own-change`.",
        consent.consent, Permission.PEOPLE, {200: ChangeDocument}, body=ConsentBody, problems=(404, 409, 412),
        storing=Storing.WRITE,
    ),
    Route(
        "POST", "/v1/changes/{id}/refuse", "change.refuse", "Refuse a change that waits for consent.",
        consent.refuse_change, Permission.PEOPLE, {204: None}, body=Nothing, problems=(404,), storing=Storing.WRITE,
    ),
    Route(
        "POST", f"{_QUESTION}/assertion", "question.assertion",
        "The options with which a browser uses a passkey for an act on the question in its present state.",
        passkeys.show_options, _READ, {200: OptionsDocument}, body=AssertionBody, problems=(404, 412),
        storing=Storing.NOTHING, tagged=True, computes=True,
    ),
    Route("GET", "/v1/passkeys", "passkey.list", "Your own passkeys.", passkeys.list_own, _READ, {200: PasskeyList}),
    Route(
        "POST", "/v1/passkeys/options", "passkey.options",
        "The options from which a browser makes a passkey. Needs an invitation.",
        passkeys.options, _READ, {200: OptionsDocument}, body=PasskeyOptionsBody, problems=(404,),
        storing=Storing.NOTHING, computes=True,
    ),
    Route(
        "POST", "/v1/passkeys", "passkey.add", "Register a passkey of your own, with an invitation.",
        passkeys.register, _READ, {201: PasskeyDocument}, body=PasskeyBody, problems=(404, 409),
        storing=Storing.WRITE,
    ),
    Route("GET", "/v1/people/{id}/passkeys", "person.passkeys", "A person's passkeys.", passkeys.of_person,
          Permission.PEOPLE, {200: PasskeyList}, problems=(404,)),
    Route(
        "DELETE", "/v1/people/{id}/passkeys/{passkey}", "passkey.take", "Revoke a passkey.",
        passkeys.take, Permission.PEOPLE, {204: None}, problems=(404,), storing=Storing.WRITE,
    ),
    Route(
        "POST", "/v1/people/{id}/invitation", "person.invite",
        "Invite a person to bind an account or register a passkey. The text is shown only once.", openid.invite,
        Permission.PEOPLE, {201: InvitationDocument, 202: WaitingInvitation}, body=Nothing,
        problems=(404, 409), storing=Storing.WRITE,
    ),
    Route(
        "DELETE", "/v1/people/{id}/identity", "person.unbind",
        "Unbind the account of the sign-in provider, and revoke any invitation.",
        openid.unbind, Permission.PEOPLE, {200: PersonDocument}, problems=(404,), storing=Storing.WRITE,
    ),
    Route(
        "POST", "/v1/session/openid", "session.openid", "The URL at which a browser signs in at the provider.",
        openid.begin, None, {200: AuthorizationDocument}, body=OpenIdBody, problems=(404, 502),
        storing=Storing.NOTHING, computes=True,
    ),
    Route(
        "POST", "/v1/session/openid/return", "session.return",
        "Sign in with the parameters with which the provider sent the browser back.",
        openid.end, None, {201: SessionDocument}, body=OpenIdReturn, problems=(401, 403, 404, 409, 502),
        storing=Storing.NOTHING,
    ),
    Route(
        "POST", "/v1/session", "session.begin", "Sign in with a key, or with a name and a password.",
        sessions.sign_in, None, {201: SessionDocument}, body=SignInBody, problems=(401, 429), storing=Storing.NOTHING,
    ),
    Route("GET", "/v1/session", "session.show", "The person who is signed in, and their permissions.",
          sessions.show_session,
          _READ, {200: SessionDocument}),
    Route("DELETE", "/v1/session", "session.end", "Sign out.", sessions.sign_out, _READ, {204: None},
          storing=Storing.WRITE),
    Route("GET", "/v1/audit", "audit.list", "Every act, in order.", acts.list_acts, Permission.AUDIT, {200: AuditPage},
          paged=True),
)  # fmt: skip
