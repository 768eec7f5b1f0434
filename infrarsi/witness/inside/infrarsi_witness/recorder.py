"""What happened, in order: forwards, backwards, steps, and where one update ends."""

from __future__ import annotations

import atexit
import sys
import time

import torch

from .batches import Digester
from .closing import Closing
from .control import Control
from .facts import finish_with_a_child, rank, read_facts
from .faults import Faults
from .flags import Switches, autocast_now
from .gathering import Gathering
from .guard import capturing, quiet
from .inputs import any_requires_grad
from .matmuls import anything_compiled
from .perturb import Nudge
from .roots import Roots, Trained, Visit


class Recorder:
    """Folds what the hooks meet into updates, and has them said.

    Parameters
    ----------
    config : Config
    channel : Channel
    """

    def __init__(self, config, channel):
        self.config = config
        self.channel = channel
        self.faults = Faults(channel, lambda: self.phase)
        self.switches = Switches()
        self.gate = None
        self.compiled = False
        self.reset()
        atexit.register(self.ends)

    def reset(self):
        """Begin anew: at the start, and in a forked child."""
        self.channel.forget()
        self.off = False
        self.phase = "start"
        self.said = set()
        self.roots = Roots()
        self.trained = Trained()
        self.digester = Digester()
        self.nudge = Nudge(self.config.ulps, self.config.perturb_seed, stir=self.config.stir)
        self.control = Control(self.config.control)
        self.closing = Closing(self)
        self.now = Gathering()
        self.waiting = []
        self.in_backward = 0
        self.steps = []
        self.steps_seen = 0
        self.within = ()
        self.clipping = False
        self.scaler = None
        self.greeted = self.prepared = self.ended = False
        self.faults.sent, self.faults.passing = False, None

    def note(self, text):
        """Say once what could not be seen."""
        if text not in self.said:
            self.said.add(text)
            if self.greeted:
                self.channel.send("note", text=text)

    # Forwards

    @quiet
    def forward_begins(self, module):
        """Meet an outermost module as it is called."""
        if not torch.is_grad_enabled() or capturing():
            return None
        root = self.roots.get(module)
        visit = Visit(root, training=root.trainable and module.training)
        if visit.training:
            self._training_begins([root])
        return self._watch(visit)

    @quiet
    def forward_ends(self, visit, args, kwargs, output):
        """Note that it has returned."""
        if visit is None:
            return
        self._leave(visit)
        fed = self.digester.read(args, kwargs, visit.root.names)
        if not any_requires_grad(output) and self.now.backwards == visit.backwards:
            return
        self.waiting.append(
            (visit.training, visit.root.params if visit.root.trainable else [], fed)
        )

    @quiet
    def call_begins(self, args, kwargs, owners):
        """Meet an outermost compiled callable; what it is fed is read beforehand."""
        self.compiled = True
        if not torch.is_grad_enabled() or capturing():
            return None
        roots = [self.roots.get(each) for each in owners.modules(args, kwargs)]
        training = [each for each in roots if each.trainable and each.module().training]
        visit = Visit(None, training=bool(training))
        if training:
            self._training_begins(training)
        names = roots[0].names if owners.names is None else owners.names
        fed = self.digester.read(args, kwargs, names)
        params = [each for root in training for each in root.params]
        visit.fed = (visit.training, params, fed)
        self.waiting.append(visit.fed)
        self.within = owners.optimizers(args, kwargs)
        visit.steps = self.steps_seen
        if self.within:
            self._before_hidden_step()
        return self._watch(visit)

    @quiet
    def call_ends(self, visit, output):
        """Note that it has returned."""
        if visit is None:
            return
        self._leave(visit)
        whole_step = self.now.backwards != visit.backwards
        if not (visit.training or whole_step or any_requires_grad(output)):
            self.waiting = [each for each in self.waiting if each is not visit.fed]
        within, self.within = self.within, ()
        if within and self.steps_seen == visit.steps:
            self._after_hidden_step(within)
        self.closing.infer()

    def _before_hidden_step(self):
        """Read gradients: the callable may step these optimizers where no hook can be."""
        for optimizer in self.within:
            self._read_gradients(optimizer)

    def _after_hidden_step(self, within):
        """Close an update if parameters moved; what was not read before is read now."""
        self._commit()
        if self.prepared and self.closing.touched() and self.closing.moved():
            self.note("the optimizer's step is compiled: steps are inferred from the parameters")
            for optimizer in within:
                self._read_gradients(optimizer)
                self.now.stepped[id(optimizer)] = optimizer
                self.closing.optimizers[id(optimizer)] = optimizer
            self.closing.close()

    def _watch(self, visit):
        visit.backwards = self.now.backwards
        visit.gathering = self.now
        self.phase = "forward"
        if visit.training:
            self.closing.marks.begin_look(self.closing.done + 1, compiled=self._compiled())
        visit.began = time.perf_counter()
        return visit

    def _leave(self, visit):
        self.closing.marks.end_look(finished=False)
        if visit.gathering is self.now:
            inner = self.now.phase_s["backward"] + self.now.phase_s["optimizer"]
            spent = time.perf_counter() - visit.began
            if self.now.backwards == visit.backwards or inner == 0.0:
                self.now.phase_s["forward"] += spent
        self.phase = "between"

    def _training_begins(self, roots):
        """Before a training forward: the last update is over, and its mark can be said."""
        self.greet()
        self.closing.before_forward()
        if self.closing.done == 0 and not self.prepared:
            for root in roots:
                self.nudge.apply(root.params)

    def _compiled(self):
        return self.compiled or anything_compiled()

    # Backwards

    @quiet
    def backward_begins(self, tensors, grad_tensors):
        """Meet a backward that is not inside another one."""
        self.in_backward += 1
        self.phase = "backward"
        self.backward_began = time.perf_counter()
        if capturing():
            self.note("CUDA graphs: a captured backward; its replays cannot be seen")
            return
        self.greet()
        self._commit()
        self.prepare()
        roots, weights = _listed(tensors), _listed(grad_tensors)
        for i, root in enumerate(roots):
            self._add_loss(root, weights[i] if i < len(weights) else None)
        self.now.backwards += 1
        self.switches.autocast.update(autocast_now(roots))
        update = self.closing.done + 1
        if self.closing.marks.wants(update):
            self.closing.marks.walk(update, roots)
        self.closing.marks.begin_look(update, compiled=self._compiled())

    @quiet
    def backward_nested(self, tensors):
        """Meet a backward inside another: a recomputed part; only its dtypes matter."""
        update = self.closing.done + 1
        if self.closing.marks.wants(update) and not capturing():
            self.closing.marks.walk_nested(_listed(tensors))

    @quiet
    def backward_ends(self):
        """Note that it has returned, or failed."""
        self.in_backward = max(0, self.in_backward - 1)
        for optimizer in self.within:
            self.now.squares, self.now.measured = [], set()
            self._read_gradients(optimizer)
        self.closing.marks.end_look(finished=True)
        self.now.phase_s["backward"] += time.perf_counter() - self.backward_began
        self.phase = "between"

    def trains(self, inputs):
        """Tell whether gradients are asked for parameters under training."""
        return any(id(each) in self.trained.ids for each in _listed(inputs))

    def _add_loss(self, root, weight):
        plain = getattr(root, "_infrarsi_plain", None)
        if plain is not None:
            self.now.add_loss(plain, weight, None)
            return
        scale = getattr(self.scaler, "_scale", None) if self.scaler is not None else None
        self.now.add_loss(root, weight, scale)
        if root.numel() != 1:
            self.note("a backward began from a tensor of several elements: loss unknown")

    def _commit(self):
        """Count what waited as training (eval-mode forwards only if alone)."""
        sure = any(training for training, _, _ in self.waiting)
        new = False
        for training, params, fed in self.waiting:
            if fed is not None and fed.ids is None:  # a loss's targets
                self.now.add_targets(fed.targets)
            if sure and not training:
                continue
            new = self.trained.add(params) or new
            if fed is not None and fed.ids is not None:
                self.now.forwards += 1
                self.now.fed.append(fed)
                if fed.ignored:
                    names = ", ".join(sorted(set(fed.ignored)))
                    self.note("inputs that are not in the digest: %s" % names)
        self.waiting = []
        if new and self.prepared:
            self.closing.resample()

    # Steps

    @quiet
    def step_begins(self, optimizer, args, kwargs):
        """Meet an optimizer's step."""
        if self.steps and self.steps[-1][0] is optimizer:
            self.steps = []  # it failed last time, and the program caught that
        closure = (args[1] if len(args) > 1 else None) or kwargs.get("closure")
        self.steps.append((optimizer, callable(closure), time.perf_counter()))
        if len(self.steps) > 1:
            return
        self.steps_seen += 1
        self.phase = "optimizer"
        if capturing():
            return
        self.greet()
        if self.closing.starts_over(optimizer):
            self.closing.close()
        if not callable(closure):
            self._read_gradients(optimizer)
            if self.control.apply(optimizer):
                self.note("control: %s" % self.control.kind)

    @quiet
    def step_ends(self, optimizer):
        """Note that an optimizer's step has returned."""
        if not self.steps:
            return
        _, closure, began = self.steps.pop()
        if self.steps or capturing():
            return
        self.phase = "between"
        if closure:
            self._read_gradients(optimizer)
        self.now.phase_s["optimizer"] += time.perf_counter() - began
        self.closing.stepped(optimizer)
        self.faults.recovered()

    def _read_gradients(self, optimizer):
        params = [each for group in optimizer.param_groups for each in group["params"]]
        if not self.prepared:
            self.trained.add(params)
            self.prepare()
        scale = getattr(optimizer, "grad_scale", None)
        self.now.measure(params, scale if isinstance(scale, torch.Tensor) else None)
        if self.closing.marks.wants(self.closing.done + 1):
            self.closing.marks.count_gradients(params)

    @quiet
    def clip_begins(self, params):
        """Gradients are about to be clipped: their norm is taken before."""
        if not self.clipping and not capturing():
            self.now.measure(_listed(params))

    @quiet
    def trusts(self, params):
        """Tell whether a clip's own total is the norm of what was not measured yet."""
        return not self.clipping and not capturing() and self.now.unmeasured(_listed(params))

    @quiet
    def clip_told(self, params, norm):
        """Take the norm that a clip measured before it clipped."""
        self.now.take_norm(_listed(params), norm)

    @quiet
    def scaled(self, scaler, outputs, scaled):
        """Remember that a loss was scaled: the root that follows is not the loss itself."""
        if not getattr(scaler, "_enabled", True):
            return
        self.scaler = scaler
        self.switches.scaler = True
        if isinstance(outputs, torch.Tensor) and isinstance(scaled, torch.Tensor):
            scaled._infrarsi_plain = outputs.detach()

    @quiet
    def scaler_stepped(self, scaler, *, stepped):
        """Tell whether a gradient scaler stepped; where it did not, the batch came to nothing."""
        if not stepped and getattr(scaler, "_enabled", True):
            self.note("a gradient scaler skipped a step; its batch is not counted")
            skipped = self.now.skipped + 1
            self.now = Gathering()
            self.now.skipped = skipped

    # The beginning and the end

    def greet(self):
        """Say hello, once, at the first sign of training."""
        if self.greeted:
            return
        worker = getattr(sys.modules.get("torch.utils.data"), "get_worker_info", None)
        if worker is not None and worker() is not None:
            self.off = True
            return
        self.greeted = True
        self.now.began = time.perf_counter()
        self.channel.rank = rank()
        self.faults.watch()
        finish_with_a_child(self)
        self.channel.send("hello", **read_facts())
        for text in sorted(self.said):
            self.channel.send("note", text=text)

    def prepare(self):
        """Before anything changes the parameters: choose the sample, and take mark 0."""
        if self.prepared or self.off:
            return
        self.prepared = True
        if self.nudge.ulps and not self.nudge.done:
            self.note("the weights could not be perturbed before the first forward")
        self.closing.resample()
        if self.closing.marks.wants(0):
            self.closing.mark(0)
            self.closing.marks.say((), self.switches.read())

    @quiet
    def failed(self, phase, error):
        """Note that an exception left an outermost call."""
        self.faults.passed(phase, error)
        self.waiting, self.within = [], ()
        self.steps = [each for each in self.steps if each[1]]
        self.closing.marks.end_look(finished=False)
        self.phase = "between"

    @quiet
    def ends(self):
        """Say the last words of a program that ends by itself."""
        if not self.greeted or self.ended:
            return
        self.ended = True
        self.closing.finish()
        self.faults.report_passing()
        if not self.faults.sent:
            self.closing.marks.say_files()
            self.channel.send("bye")


def _listed(value):
    if value is None:
        return []
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for each in value if isinstance(each, torch.Tensor)]
