"""`python -m sluice.services.admission_check`: what admission checks are asked, and what they answer."""

from sluice.core.checks.decider import AdmissionChecks
from sluice.protocol.checks import CONTROLLER
from sluice.services.common.decider import run_decider

from .presence import Controllers
from .requests import CheckRequestProjection

if __name__ == "__main__":
    run_decider("admission_check", AdmissionChecks(), [CheckRequestProjection()], (CONTROLLER, Controllers()))
