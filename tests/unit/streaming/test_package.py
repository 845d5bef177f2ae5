import subprocess
import sys

import pytest

import streaming
from streaming.kafka.diff_reader import read_diffs


def test_read_diffs_is_in_the_top_level_package() -> None:
    assert streaming.read_diffs is read_diffs
    assert all(getattr(streaming, name) for name in streaming.__all__)
    assert set(streaming.__all__) <= set(dir(streaming))


def test_unknown_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = streaming.nothing


def test_importing_streaming_loads_no_client() -> None:
    code = "import sys, streaming; print(sorted({'confluent_kafka', 'pydantic', 'pyspark'} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
