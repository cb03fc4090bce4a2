"""What benchmark runs say of a storage system: limits fitted to measurements, with intervals and with honesty."""

from sizing.storage.calibration.agreement import Publisher, select_agreeing
from sizing.storage.calibration.calibrate import calibrate
from sizing.storage.calibration.calibration import Calibration
from sizing.storage.calibration.prediction import Prediction, predict

__all__ = ["Calibration", "Prediction", "Publisher", "calibrate", "predict", "select_agreeing"]
