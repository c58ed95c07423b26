import pytest

import cotangent as ct


@pytest.fixture(autouse=True)
def seeded():
    ct.manual_seed(1)
