"""What benchmark runs say of a storage system: limits fitted to measurements, with intervals and with honesty."""

from typing import TYPE_CHECKING

from sizing.late_names import late_names

if TYPE_CHECKING:
    from sizing.storage.calibration.agreement import Publisher, select_agreeing
    from sizing.storage.calibration.calibration import MAX_USEFUL_RATIO, Calibration
    from sizing.storage.calibration.from_results import calibrate
    from sizing.storage.calibration.prediction import Prediction, predict

__all__ = ["MAX_USEFUL_RATIO", "Calibration", "Prediction", "Publisher", "calibrate", "predict", "select_agreeing"]

__getattr__ = late_names(
    __name__,
    {
        "MAX_USEFUL_RATIO": "calibration",
        "Calibration": "calibration",
        "Prediction": "prediction",
        "Publisher": "agreement",
        "calibrate": "from_results",
        "predict": "prediction",
        "select_agreeing": "agreement",
    },
)
