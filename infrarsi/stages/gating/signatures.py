"""Who signed a promotion, and who reviewed it, by what the base says who may."""

from __future__ import annotations

from dataclasses import dataclass

from infrarsi.errors import RejectedError
from infrarsi.execute.signature import Signed, verify
from infrarsi.records.plan import Contract, Gate
from infrarsi.records.statement import (
    PROMOTION_NAMESPACE,
    REVIEW,
    REVIEW_NAMESPACE,
    SIGNATURE,
    STATEMENT,
)
from infrarsi.stages.gating.bundle import Bundle
from infrarsi.stages.gating.opened import Change


@dataclass(frozen=True)
class Signatures:
    """The signatures of a bundle, beside the base's policy and its allowed signers."""

    bundle: Bundle
    policy: Gate
    signers: bytes | None
    """The base's file of allowed signers, in git's format; ``None``: it has none."""

    @classmethod
    def at(cls, change: Change, contract: Contract, bundle: Bundle) -> Signatures:
        """Read who may sign at the base."""
        policy = contract.plan.gate
        return cls(bundle, policy, change.at_base_content(policy.signers))

    def check_signature(self, *, rerun: bool) -> str:
        """Check who signed; without a signature, whether it may pass by a rerun."""
        signed = self._author()
        if signed is not None:
            return f"signed by {signed.principal} ({signed.fingerprint})"
        if self.policy.unsigned == "refuse":
            raise RejectedError(
                "it is not signed, and the base lets no unsigned promotion pass",
                hint="promote again with `infrarsi apply --sign KEY`",
            )
        if not rerun:
            raise RejectedError(
                f"it is not signed: there is no {SIGNATURE}",
                hint="promote with `infrarsi apply --sign KEY`, or have the gate confirm it again "
                "with --rerun",
            )
        return "not signed: it rests on the rerun alone"

    def check_review(self) -> str:
        """Check that a second person signed, where the base asks for it."""
        if self.bundle.review is None:
            if not self.policy.review:
                return "none is asked for"
            raise RejectedError(
                "the base asks for a second person's review, and there is none",
                hint=f"have a second allowed signer sign {STATEMENT} into {REVIEW}; docs/gate.md "
                "gives the command",
            )
        found = self._who(self.bundle.review, REVIEW_NAMESPACE)
        if self.policy.review:
            self._refuse_own_review(found)
        return f"reviewed by {found.principal} ({found.fingerprint})"

    def _author(self) -> Signed | None:
        if self.bundle.signature is None:
            return None
        return self._who(self.bundle.signature, PROMOTION_NAMESPACE)

    def _who(self, signature: bytes, namespace: str) -> Signed:
        if self.signers is None:
            raise RejectedError(
                f"it is signed, and the base has no {self.policy.signers} that says who may sign",
                hint=f"name the allowed signers in {self.policy.signers} on the base branch",
            )
        return verify(self.bundle.raw, signature, signers=self.signers, namespace=namespace)

    def _refuse_own_review(self, found: Signed) -> None:
        author = self._author()
        if author is None:
            raise RejectedError(
                "it is not signed, so that nobody can tell whether a second person reviewed it",
                hint="promote with `infrarsi apply --sign KEY`",
            )
        if found.principal == author.principal or found.fingerprint == author.fingerprint:
            raise RejectedError(
                f"the review is signed by {found.principal}, who signed the promotion",
                hint="have another allowed signer review it",
            )
