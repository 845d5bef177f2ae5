from pathlib import Path

import pytest

from benchmarks._assignor_shapes import group_shapes
from benchmarks._assignor_table import (
    GROWTH_COLUMNS,
    SHAPE_COLUMNS,
    TIME_COLUMNS,
    Row,
    csv_cells,
    growth_table,
    overview_table,
    parse_times,
    read_rows,
    summary_text,
    write_rows,
)

FIRST_SHAPE, SECOND_SHAPE, THIRD_SHAPE = (str(shape) for shape in list(group_shapes("classic", quick=True))[:3])


def row(python_ms: float, jvm: float | None) -> Row:
    return {"ours": python_ms, "jvm": jvm, "peer": None}


@pytest.mark.parametrize("protocol", ["classic", "consumer", "zookeeper"])
@pytest.mark.parametrize(("jvm", "over"), [(2.5, None), (None, 30_000)])
def test_rows_are_read_as_they_were_written(protocol: str, jvm: float | None, over: int | None, tmp_path: Path) -> None:
    measured: Row = {"ours": 1.25, "jvm": jvm, "peer": 7.0, "python": 3.5} | ({"over": over} if over else {})
    cells = csv_cells(FIRST_SHAPE, measured, protocol)
    header = [*SHAPE_COLUMNS, *TIME_COLUMNS[protocol]]
    assert len(cells) == len(header)
    write_rows(tmp_path / "rows.csv", header, [cells])
    assert read_rows(tmp_path / "rows.csv") == {FIRST_SHAPE: cells}
    times = parse_times(cells, protocol)
    assert times == {name: measured[name] for name in times}
    assert summary_text({FIRST_SHAPE: times}) == summary_text({FIRST_SHAPE: {name: measured[name] for name in times}})


def test_missing_benchmark_file_gives_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "rows.csv") == {}


def test_assignor_overview_has_a_row_for_each_assignor() -> None:
    rows = {FIRST_SHAPE: row(1, 2), SECOND_SHAPE: row(3, 4), THIRD_SHAPE: row(5, None)}
    cells = {name: csv_cells(name, measured, "classic") for name, measured in rows.items()}
    assert overview_table(cells, "classic").splitlines()[2:] == ["| range | equal | 3 | 0.75 | 0.75 | 5 (100×10) |"]


def test_growth_table_shows_the_largest_growth() -> None:
    rows = [
        ["range", "equal", "500×10", "1", "", ""],
        ["range", "equal", "1000×10", "3", "3.00", "2.22"],
        ["range", "equal", "2000×10", "4", "1.33", "2.20"],
    ]
    assert len(rows[0]) == len(GROWTH_COLUMNS)
    assert growth_table(rows).splitlines()[2:] == ["| range | equal | 4 | 3.00 | 2.22 |"]
