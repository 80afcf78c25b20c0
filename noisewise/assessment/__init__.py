"""How far can an answer be trusted? The one place that decides it.

`Evidence` holds the facts, `judge` turns them into an `Assessment`, and `sentences` puts that into
words. These know nothing of how facts are found, so that certificates can use them. `nw.assess` and
`QuickCheck` find the facts, by simulation.
"""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.assessment.assess_posterior import assess
    from noisewise.assessment.assessment import Assessment
    from noisewise.assessment.evidence import CertificateFacts, Evidence, PredictionFacts
    from noisewise.assessment.judging import judge
    from noisewise.assessment.quick_check import QuickCheck
    from noisewise.assessment.reasons import Level, Reason, ReasonKind, Verdict

__all__ = [
    "Assessment",
    "CertificateFacts",
    "Evidence",
    "Level",
    "PredictionFacts",
    "QuickCheck",
    "Reason",
    "ReasonKind",
    "Verdict",
    "assess",
    "judge",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Assessment": "noisewise.assessment.assessment",
        "CertificateFacts": "noisewise.assessment.evidence",
        "Evidence": "noisewise.assessment.evidence",
        "Level": "noisewise.assessment.reasons",
        "PredictionFacts": "noisewise.assessment.evidence",
        "QuickCheck": "noisewise.assessment.quick_check",
        "Reason": "noisewise.assessment.reasons",
        "ReasonKind": "noisewise.assessment.reasons",
        "Verdict": "noisewise.assessment.reasons",
        "assess": "noisewise.assessment.assess_posterior",
        "judge": "noisewise.assessment.judging",
    },
)
