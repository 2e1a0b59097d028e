"""How much a service is asked for at once: less when it says so, more while it copes."""

import asyncio
import time
from collections import Counter

import pytest

from cobalt.engines.retry import OWN_LIMIT, Pace, Retrier, Retry, retry_after_s
from cobalt.errors import InfraError


class Service:
    """Refuses calls beyond `capacity` at once; counts."""

    def __init__(self, capacity):
        self.capacity, self.now, self.most, self.refused, self.done = capacity, 0, 0, 0, 0

    async def __call__(self):
        if self.now >= self.capacity:
            self.refused += 1
            raise Retry("rate_limit", "slow down")
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.004)
        self.now -= 1
        self.done += 1
        return "made"


async def test_calls_at_once_adapt_to_what_the_service_takes():
    service, pace = Service(8), Pace(256, calm_s=0.01)
    retry = Retrier("x", retries=1000, backoff_s=0.002, counters=Counter(), pace=pace)
    assert set(await asyncio.gather(*(retry(service) for _ in range(600)))) == {"made"}
    assert service.done == 600 and pace.now < 64 and service.most == 8
    service.capacity = 10**6
    await asyncio.gather(*(retry(service) for _ in range(3000)))
    assert pace.now > 64


async def test_a_pause_the_service_asks_for_holds_for_all():
    pace, began, starts = Pace(8), time.monotonic(), []
    pace.bad(Retry("rate_limit", "", 0.2))

    async def call():
        async with pace.slot():
            starts.append(time.monotonic() - began)

    await asyncio.gather(*(call() for _ in range(4)))
    assert len(starts) == 4 and min(starts) >= 0.19


async def test_a_cancelled_call_gives_its_place_on():
    pace = Pace(1, least=1)
    release = asyncio.Event()

    async def hold():
        async with pace.slot():
            await release.wait()

    first, second, third = (asyncio.create_task(hold()) for _ in range(3))
    await asyncio.sleep(0.01)
    second.cancel()
    release.set()
    await asyncio.wait_for(asyncio.gather(first, third), 1)
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_waiting_for_our_own_limit_is_no_failed_try():
    left = [3]

    async def call():
        if left[0]:
            left[0] -= 1
            raise Retry(OWN_LIMIT, "the minute is used up", 0.01)
        return 1

    retry = Retrier("x", retries=0, backoff_s=0.001, counters=Counter())
    assert await retry(call) == 1

    async def fails():
        raise Retry("http_500", "oops")

    with pytest.raises(InfraError, match="gave up after 1 tries"):
        await retry(fails)


@pytest.mark.parametrize(
    "value, seconds", [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("9999", 60.0), ("soon", None), (None, None),
                       ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)  # fmt: skip
def test_retry_after(value, seconds):
    assert retry_after_s({} if value is None else {"Retry-After": value}) == seconds
