"""Output layer and cross-entropy become one function that works some rows at a time."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.flow import binds, read_later, reads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository, passed
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, literal, read_sources, sole, text_of, walk

from .inserted import loss_call
from .sites import Head, Site, loss_sites, read_head, read_site
from .split import split_forward


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Chunk the loss wherever nobody reads the logits that it is made of."""
    read = read_sources(sources)
    repository = Repository(read)
    rewrites = {source.path: Rewrite(source) for source in read}
    reasons: list[str] = []
    done: set[str] = set()
    elsewhere: list[Site] = []
    for source in read:
        try:
            calls = loss_sites(repository, source)
        except DoesNotApply as answer:
            reasons.append(answer.because)
            continue
        for call, options in calls:
            site = read_site(source, call, options)
            if site is None or site.producer is None:
                reasons.append(f"the logits of {source.code(call)[:60]!r} cannot be followed")
                continue
            head = read_head(repository, source, site.producer)
            try:
                if head is None:
                    elsewhere.append(site)
                    continue
                _chunk(repository, rewrites[source.path], site, head)
                done.add(source.path)
            except DoesNotApply as answer:
                reasons.append(f"{answer.because} ({source.path}, line {source.line(call)})")
    try:
        done |= split_forward(repository, rewrites, elsewhere)
    except DoesNotApply as answer:
        reasons.append(answer.because)
    if not done:
        raise DoesNotApply(
            "; ".join(dict.fromkeys(reasons)) or "no cross-entropy is taken of logits"
        )
    return {path: rewrites[path].text() for path in sorted(done)}


def _chunk(repository: Repository, rewrite: Rewrite, site: Site, head: Head) -> None:
    """Rewrite a loss whose output layer is applied in the same function."""
    source = site.source
    uses = _other_uses(site)
    shapes = [use for use in uses if _is_shape(source, use)]
    returned = [use for use in uses if _is_returned(source, use)]
    rest = [use for use in uses if use not in shapes and use not in returned]
    if rest:
        raise DoesNotApply(
            f"the logits are used elsewhere, in {source.code(source.statement(rest[0]))[:80]!r}"
        )
    _check_unchanged(site, head)
    producer_at = site.producer_at
    assert producer_at is not None
    outside = producer_at is not site.statement and source.block(producer_at) is not source.block(
        site.statement
    )
    test = _test_around(source, site, producer_at) if outside else None
    if returned:
        _check_callers(repository, site, returned, test)
    for use in shapes:
        holder = source.parents[use]
        full = source.parents[holder] if isinstance(source.parents[holder], cst.Call) else holder
        rewrite.replace(full, f"(*({head.hidden}).shape[:-1], ({head.weight}).shape[0])")
    for statement in site.consumed:
        if statement is not producer_at:
            rewrite.remove(statement)
    if producer_at is not site.statement:
        _retire_producer(rewrite, site, producer_at, test, needed=bool(returned))
    hidden = head.hidden
    if site.slices:
        hidden = f"({hidden})" + "".join(site.slices)
    rewrite.replace(site.call, loss_call(rewrite, site, hidden, head.weight, head.bias))


def _retire_producer(
    rewrite: Rewrite, site: Site, producer_at: cst.CSTNode, test: str | None, *, needed: bool
) -> None:
    """Make the logits no more, or only where there is no loss."""
    assert site.producer is not None
    if test is None:
        if needed:
            rewrite.replace(site.producer, "None")
        else:
            rewrite.remove(producer_at)
        return
    code = site.source.code(site.producer)
    rewrite.replace(site.producer, f"None if {test} else {code}")


def _other_uses(site: Site) -> list[cst.Name]:
    """Give the reads of the logits that are not on the way to the loss."""
    source = site.source
    scope = source.scope(site.statement)
    within = {node for statement in site.consumed for node in walk(statement)}
    within |= set(walk(site.call))
    # Later definitions are not the logits any more: the first statement is where they begin.
    first = min((source.order[each] for each in site.consumed), default=0)
    found = []
    for name in set(site.consumed.values()):
        for use in reads(scope, name):
            if use in within or source.order[use] < first or _in_other_branch(source, use, site):
                continue
            found.append(use)
    return found


def _in_other_branch(source: Source, use: cst.CSTNode, site: Site) -> bool:
    """Tell whether a read stands in a branch that excludes the loss, after its own definition."""
    for around in source.ancestors(use):
        if isinstance(around, cst.If):
            branches = [around.body, around.orelse]
            mine = [
                each
                for each in branches
                if each is not None and any(node is site.call for node in walk(each))
            ]
            theirs = [
                each
                for each in branches
                if each is not None and any(node is use for node in walk(each))
            ]
            if mine and theirs and mine[0] is not theirs[0]:
                name = use.value if isinstance(use, cst.Name) else ""
                return any(each.value == name for each in stores(theirs[0]))
    return False


def _is_shape(source: Source, use: cst.Name) -> bool:
    holder = source.parents[use]
    if not isinstance(holder, cst.Attribute):
        return False
    if holder.attr.value == "shape":
        return isinstance(source.parents[holder], cst.Assign)
    call = source.parents[holder]
    return holder.attr.value == "size" and isinstance(call, cst.Call) and not call.args


def _is_returned(source: Source, use: cst.Name) -> bool:
    element = source.parents[use]
    whole = source.parents.get(element)
    return (
        isinstance(element, cst.Element)
        and isinstance(whole, cst.Tuple)
        and isinstance(source.parents[whole], cst.Return)
    )


def _check_unchanged(site: Site, head: Head) -> None:
    """Refuse where what feeds the output layer is no longer the same at the loss."""
    source = site.source
    assert site.producer_at is not None
    names = {
        each.value
        for each in walk(cst.parse_expression(f"({head.hidden}, {head.weight})"))
        if isinstance(each, cst.Name)
    }
    start, end = source.order[site.producer_at], source.order[site.statement]
    for each in stores(source.scope(site.statement)):
        place = source.order[each]
        if (
            each.value in names
            and start < place < end
            and source.statement(each) not in site.consumed
        ):
            raise DoesNotApply(f"{each.value!r} changes between the output layer and the loss")
    if names & set(site.consumed.values()):
        raise DoesNotApply("the logits take the name of what they are made of")


def _test_around(source: Source, site: Site, producer_at: cst.CSTNode) -> str:
    """Give the condition under which the loss is taken, seen from where the logits are made."""
    block = source.block(producer_at)
    tests = []
    node: cst.CSTNode = site.statement
    for around in source.ancestors(site.statement):
        if any(each is node for each in block):
            break
        if isinstance(around, cst.For | cst.While | cst.Try | cst.FunctionDef):
            raise DoesNotApply("the loss is taken in another block than the logits")
        if isinstance(around, cst.If):
            text = text_of(around.test)
            inside = any(each is node for each in (around.body,))
            tests.append(f"({text})" if inside else f"not ({text})")
        node = around
    if not tests:
        raise DoesNotApply("the loss is taken in another block than the logits")
    free = {
        each.value
        for test in tests
        for each in walk(cst.parse_expression(test))
        if isinstance(each, cst.Name)
    }
    for statement in block:
        later = source.order[statement] > source.order[producer_at]
        if later and sole(statement) is not None and any(binds(statement, name) for name in free):
            raise DoesNotApply("the condition of the loss changes after the logits are made")
    return " and ".join(tests)


def _check_callers(
    repository: Repository, site: Site, returned: list[cst.Name], test: str | None
) -> None:
    """Every call that takes a loss must leave the logits alone."""
    source = site.source
    function = source.scope(site.statement)
    owner = repository.class_around(source, site.statement)
    if not isinstance(function, cst.FunctionDef):
        raise DoesNotApply("the logits are returned from no function")
    positions = set()
    for use in returned:
        element = source.parents[use]
        whole = source.parents[element]
        assert isinstance(whole, cst.Tuple)
        positions.add([each is element for each in whole.elements].index(True))
    if owner is not None and function.name.value == "forward":
        calls = repository.calls_of(owner.name)
    else:
        calls = [
            (each, call) for each in repository.sources for call in each.every(cst.Call)
            if (text_of(call.func)).rpartition(".")[2] == function.name.value
        ]  # fmt: skip
    targets = {each.value for each in walk(site.targets) if isinstance(each, cst.Name)}
    training = 0
    for caller, call in calls:
        given = dict(passed(call, function))
        starred = any(each.star for each in call.args)
        with_targets = starred or any(literal(given.get(name)) not in (..., None) or (
            name in given and literal(given[name]) is ...) for name in targets)  # fmt: skip
        if not with_targets:
            continue
        training += 1
        for position in positions:
            if not _leaves_out(caller, call, position):
                raise DoesNotApply(
                    f"the caller at {caller.path}, line {caller.line(call)} may read the logits"
                )
    if not training:
        raise DoesNotApply("the logits are returned, and no caller that takes the loss can be seen")


def _leaves_out(source: Source, call: cst.Call, position: int) -> bool:
    """Tell whether a caller provably does nothing with one of the values that it gets."""
    around = source.parents[call]
    match around:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))]):
            if position >= len(elements) or any(
                isinstance(e, cst.StarredElement) for e in elements
            ):
                return False
            target = elements[position].value
            if not isinstance(target, cst.Name):
                return False
            return read_later(source, target.value, source.statement(call)) is None
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            wanted = literal(index)
            return isinstance(wanted, int) and wanted not in (position, position - 2)
    return False
