"""From what an operator asks for to the step that is meant, by where the group is and who is there.  Pure.

    verify      reads a copy back; with members there, proves dual; after the cutover, that everybody is on Kafka
    rollback    the next step of the way back: one that has left ZooKeeper is copied back if everybody is stopped, and
                taken through dual if not; what was copied back is copied again where Kafka went on after it

A rollback is several steps: ask again with the phase reached until it is rolled-back.
"""

from __future__ import annotations

from typing import Literal

from groupadmin.migrate.needs import Facts
from groupadmin.migrate.states import StepName, step_from
from zkconsumer.offsets.marker import Phase

Asked = Literal["check", "copy", "verify", "cutover", "rollback"]

_VERIFY = {
    Phase.CUTOVER: StepName.FINISH,
    Phase.DONE: StepName.FINISH,
    Phase.DUAL_BACK: StepName.RETURN_DUAL,
    Phase.COPIED_BACK: StepName.RETURN_VERIFY,
    Phase.VERIFIED_BACK: StepName.RETURN_VERIFY,
}
COPIED = (Phase.COPIED_BACK, Phase.VERIFIED_BACK)


def step_asked(asked: Asked, phase: Phase, facts: Facts, behind: bool = False) -> StepName:
    """The step that is meant.  Raises MigrationRefused where none of this kind leads on.

    behind: ZooKeeper holds less than is to be copied back.
    """
    somebody = bool(facts.modes or facts.modes_unknown or facts.kafka_members)
    name = _step(asked, phase, somebody)
    if asked == "rollback" and phase in COPIED and behind and not somebody:
        name = StepName.RETURN_COPY
    step_from(phase, name)
    return name


def _step(asked: Asked, phase: Phase, somebody: bool) -> StepName:
    if asked == "verify":
        if phase in (Phase.COPIED, Phase.VERIFIED):
            return StepName.ENTER_DUAL if somebody else StepName.VERIFY
        return _VERIFY.get(phase, StepName.ENTER_DUAL)
    if asked == "rollback":
        if phase in (Phase.CUTOVER, Phase.DONE):
            return StepName.RETURN_DUAL if somebody else StepName.RETURN_COPY
        return StepName.RETURN_VERIFY if phase is Phase.COPIED_BACK else StepName.ROLL_BACK
    return StepName(asked)
