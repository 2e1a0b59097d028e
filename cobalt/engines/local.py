"""A causal language model of the transformers library in this process, on CPU or GPU.

Requests that arrive together are sampled together. One thread owns the model: while it generates, the event
loop stays free, and what arrives meanwhile forms the next batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import secrets
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import CONTEXT_OVERFLOW, STOP, Completion, Sampling
from cobalt.errors import InfraError, InputError
from cobalt.schema import Message

if TYPE_CHECKING:
    from cobalt.engines.sampler import BatchSampler, SampledRow


_MODEL_FILES = {".json", ".safetensors", ".bin", ".jinja", ".model", ".txt"}


@dataclass(eq=False)
class _Request:
    messages: list[Message]
    sampling: Sampling
    future: Future[list[Completion]]


class TransformersEngine:
    """Batched chat completions from a local model.

    `model_path`: a folder in Hugging Face format with a chat template. `max_context` bounds prompt plus
    completion in tokens (default: the model's positions); a longer prompt is answered by `context_overflow`.
    `window_s`: how long an idle engine waits for company after the first request. `max_batch`: rows sampled
    together. `threads`: CPU threads of the generation thread (default: as torch is set). `device`: `auto` is
    the GPU where there is one; weights are float32 on a CPU and bfloat16 on a GPU.

    Completions depend on messages and sampling only, up to rounding of matrix products in other batches.
    `fingerprint` is a hash of the folder's files (None for a name in the cache). `counters` holds requests,
    completions, prompt_tokens, completion_tokens, batches and busy_s (wall seconds).
    Raises InputError if the folder holds no model, tokenizer or chat template.
    """

    def __init__(
        self,
        model_path: str,
        *,
        max_context: int | None = None,
        window_s: float = 0.02,
        max_batch: int = 128,
        threads: int | None = None,
        device: str = "auto",
    ) -> None:
        if max_batch < 1 or window_s < 0:
            raise InputError(f"max_batch must be >= 1 and window_s >= 0, got {max_batch}, {window_s}")
        self.name = f"transformers:{model_path}"
        self.fingerprint = fingerprint(Path(model_path))
        self.window_s, self.max_batch, self.threads = window_s, max_batch, threads
        model, self.tokenizer = _load(model_path, device)
        self.max_context: int = max_context or int(model.config.max_position_embeddings)
        self._stop_ids = _stop_ids(model, self.tokenizer)
        self._sampler = _sampler(model, self.tokenizer, self.max_context, max_batch)
        self.counters: dict[str, float] = dict.fromkeys(
            ("requests", "completions", "prompt_tokens", "completion_tokens", "batches", "busy_s"), 0
        )
        self._arrivals: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="transformers-engine", daemon=True)
        self._thread.start()

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions of the conversation; raises InfraError if generation fails."""
        if self._closed:
            raise InfraError(f"{self.name}: the engine is closed")
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(63))
        request = _Request(messages, sampling, Future())
        self._arrivals.put(request)
        return await asyncio.wrap_future(request.future)

    async def aclose(self) -> None:
        """Let the running batch finish, refuse what waits, and end the thread."""
        if not self._closed:
            self._closed = True
            self._arrivals.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        """The generation thread: sample the largest batch of waiting requests that goes together, repeat."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        waiting: list[_Request] = []
        while self._gather(waiting):
            batch = self._next_batch(waiting)
            waiting = [request for request in waiting if request not in batch]
            batch = [request for request in batch if request.future.set_running_or_notify_cancel()]
            if not batch:
                continue
            started = time.monotonic()
            try:
                self._generate(batch)
            except Exception as error:
                for request in batch:
                    if not request.future.done():
                        failure = InfraError(
                            f"{self.name}: generation failed: {type(error).__name__}: {error}"
                        )
                        failure.__cause__ = error
                        request.future.set_exception(failure)
            self.counters["batches"] += 1
            self.counters["busy_s"] += time.monotonic() - started
        for request in waiting:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(InfraError(f"{self.name}: the engine was closed"))

    def _gather(self, waiting: list[_Request]) -> bool:
        """Add arrivals to `waiting` until a batch is full or `window_s` has passed. False: the engine
        closes.
        """
        deadline = time.monotonic() + self.window_s
        while True:
            full = sum(request.sampling.n for request in waiting) >= self.max_batch
            try:
                if not waiting:
                    request = self._arrivals.get()
                    deadline = time.monotonic() + self.window_s
                else:
                    request = self._arrivals.get(timeout=0 if full else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return True
            if request is None:
                return False
            waiting.append(request)

    def _next_batch(self, waiting: list[_Request]) -> list[_Request]:
        """The oldest request and those sampled in the same way, oldest first, up to `max_batch` rows."""
        key = _key(waiting[0].sampling)
        size = max(1, self.max_batch // waiting[0].sampling.n)
        return [request for request in waiting if _key(request.sampling) == key][:size]

    def _generate(self, batch: list[_Request]) -> None:
        """Sample a batch. Each request is answered when its own rows are done, whatever the others do."""
        sampling = batch[0].sampling
        prompts = self.encode(request.messages for request in batch)
        made: list[dict[int, Completion]] = [{} for _ in batch]

        def finished(place: int, row: SampledRow) -> None:
            index, sample = divmod(place, sampling.n)
            request = batch[index]
            made[index][sample] = self._completion(len(prompts[index]), row, request.sampling.stop)
            if len(made[index]) == sampling.n:
                completions = [made[index][j] for j in range(sampling.n)]
                self._count(completions)
                request.future.set_result(completions)

        self._sampler.generate(
            prompts, [request.sampling.seed or 0 for request in batch],
            n=sampling.n, temperature=sampling.temperature, top_p=sampling.top_p,
            max_tokens=sampling.max_tokens, stop_ids=self._stop_ids, on_row=finished,
            first=[request.sampling.index for request in batch],
        )  # fmt: skip

    def encode(self, conversations: Iterable[list[Message]]) -> list[list[int]]:
        """Token ids of each conversation in the chat template, generation header included, no second BOS.

        Lone surrogates, which no tokenizer takes, become U+FFFD.
        """
        texts = self.tokenizer.apply_chat_template(
            list(conversations), add_generation_prompt=True, tokenize=False
        )
        clean = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
        ids: list[list[int]] = self.tokenizer(clean, add_special_tokens=False)["input_ids"]
        return ids

    def _completion(self, prompt_tokens: int, row: SampledRow, stop: tuple[str, ...]) -> Completion:
        size, reason = len(row.token_ids), row.finish_reason
        text = self.tokenizer.decode(row.token_ids, skip_special_tokens=True)
        found = [text.find(mark) for mark in stop if mark in text]
        if found:
            text, reason = text[: min(found)], STOP
            size = next(
                k for k in range(len(row.token_ids) + 1)
                if len(self.tokenizer.decode(row.token_ids[:k], skip_special_tokens=True)) >= len(text)
            )  # fmt: skip
        return Completion(text, reason, prompt_tokens, size, row.token_ids[:size], row.logprobs[:size])

    def _count(self, completions: list[Completion]) -> None:
        self.counters["requests"] += 1
        self.counters["completions"] += len(completions)
        if completions[0].finish_reason != CONTEXT_OVERFLOW:
            self.counters["prompt_tokens"] += completions[0].prompt_tokens
        self.counters["completion_tokens"] += sum(completion.completion_tokens for completion in completions)


def fingerprint(folder: Path) -> str | None:
    """Hash of a model folder: names, sizes, content (of files above 64 MiB the first and last MiB only)."""
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in _MODEL_FILES):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with open(path, "rb") as handle:
            if size <= 64 * 2**20:
                digest.update(handle.read())
            else:
                digest.update(handle.read(2**20))
                handle.seek(-(2**20), 2)
                digest.update(handle.read())
    return "model:" + digest.hexdigest()[:32]


def _key(sampling: Sampling) -> tuple[Any, ...]:
    return sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.n


def _load(model_path: str, device: str) -> tuple[Any, Any]:
    """Model and tokenizer; a folder that holds none is the user's mistake, said in one line."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path)
        model = AutoModelForCausalLM.from_pretrained(model_path, dtype=dtype).to(device)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"--model_name {model_path}: no model could be loaded from there ({reason})"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()
    if not tokenizer.chat_template:
        raise InputError(f"--model_name {model_path}: the tokenizer has no chat template")
    return model, tokenizer


def _stop_ids(model: Any, tokenizer: Any) -> set[int]:
    """The tokens that end a completion: those of the generation settings and of the tokenizer."""
    generation = getattr(model, "generation_config", None)
    given = getattr(generation, "eos_token_id", None)
    ids = set(given) if isinstance(given, list | tuple) else {given}
    return {int(i) for i in ids | {tokenizer.eos_token_id} if i is not None}


def _sampler(model: Any, tokenizer: Any, max_context: int, max_rows: int) -> BatchSampler:
    from cobalt.engines.sampler import BatchSampler

    return BatchSampler(model, tokenizer, max_context, max_rows=max_rows)
