"""Run with SandboxFusion's client package against a service at the URL given; fails by assertions."""

import asyncio
import base64
import sys

import sandbox_fusion as theirs

Request = theirs.RunCodeRequest


def main(url: str) -> None:
    theirs.set_endpoint(url)
    right = theirs.run_code(Request(code="print(int(input()) * 2)", language="python", stdin="21"))
    assert right.status == theirs.RunStatus.Success and right.run_result.stdout == "42\n"

    mapping = theirs.SummaryMapping(Success="right", RunTimeout="late", RunFailed="wrong")
    for code, wanted in (("1", "right"), ("1 / 0", "wrong"), ("while True: pass", "late")):
        found = theirs.run_code(Request(code=code, language="python", run_timeout=0.5))
        assert theirs.summary_run_code_result(found, mapping) == wanted, (code, found)

    files = {"data/x.txt": base64.b64encode(b"given").decode()}
    code = "open('y.txt', 'w').write(open('data/x.txt').read())"
    made = theirs.run_code(Request(code=code, language="python", files=files, fetch_files=["y.txt"]))
    assert base64.b64decode(made.files["y.txt"]) == b"given"

    asked = [[Request(code=f"print({number})", language="python")] for number in range(40)]
    results = theirs.run_concurrent(theirs.run_code, asked, concurrency=8)
    assert [each.run_result.stdout for each in results] == [f"{number}\n" for number in range(40)]

    async def together() -> list[theirs.RunCodeResponse]:
        return await asyncio.gather(*(theirs.run_code_async(*each) for each in asked))

    assert [each.run_result.stdout for each in asyncio.run(together())] == [f"{n}\n" for n in range(40)]

    for wrong, said in ((Request(code="", language="cpp"), "'cpp' is not run here"),
                        (Request(code="", language="python", run_timeout=-1), "run_timeout")):  # fmt: skip
        try:
            theirs.run_code(wrong, max_attempts=1)
        except Exception as error:
            assert said in str(error), error
        else:
            raise AssertionError(f"{wrong} was not refused")


if __name__ == "__main__":
    main(sys.argv[1])
