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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import Completion, Sampling, without_surrogates
from cobalt.engines.turn_end import turn_end
from cobalt.errors import InfraError, InputError
from cobalt.models import check_model
from cobalt.schema import Message

if TYPE_CHECKING:  # it loads torch
    from cobalt.engines.sampler import SampledRow

WINDOW_S = 0.02  # how long an idle engine waits for company after the first request
MAX_BATCH = 128  # rows sampled together
_MODEL_FILES = {".json", ".safetensors", ".bin", ".jinja", ".model", ".txt"}
_WHOLE_BYTES, _END_BYTES = 64 << 20, 1 << 20


@dataclass(eq=False)
class _Request:
    messages: list[Message]
    sampling: Sampling
    future: Future[list[Completion]]
    made: dict[int, Completion] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What the requests of one batch have in common."""
        return self.sampling.temperature, self.sampling.top_p, self.sampling.max_tokens, self.sampling.n


class TransformersEngine:
    """Batched chat completions from a local model.

    `model_path`: a folder in Hugging Face format with a chat template. `max_context` bounds prompt plus
    completion in tokens (default: the model's positions); a longer prompt is answered by `context_overflow`.
    `threads`: CPU threads of the generation thread (default: as torch is set). Weights are float32 on a CPU
    and bfloat16 on a GPU, which is used where there is one.

    Completions depend on messages and sampling only, up to rounding of matrix products in other batches.
    `fingerprint` is a hash of the folder's files (None for a name in the cache). Raises InputError if the
    folder holds no model, tokenizer or chat template.
    """

    def __init__(
        self, model_path: str, *, max_context: int | None = None, threads: int | None = None
    ) -> None:
        self.name, self.fingerprint = f"transformers:{model_path}", fingerprint(Path(model_path))
        model, self.tokenizer = _load(model_path)
        from cobalt.engines.sampler import BatchSampler

        self._sampler = BatchSampler(
            model,
            self.tokenizer,
            max_context or int(model.config.max_position_embeddings),
            max_rows=MAX_BATCH,
        )
        self._end = turn_end(self.tokenizer)
        self._threads, self._closed = threads, False
        self._arrivals: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
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
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)
        waiting: list[_Request] = []
        while self._gather(waiting):
            size = max(1, MAX_BATCH // waiting[0].sampling.n)
            batch = [request for request in waiting if request.kind == waiting[0].kind][:size]
            waiting = [request for request in waiting if request not in batch]
            batch = [request for request in batch if request.future.set_running_or_notify_cancel()]
            if not batch:
                continue
            try:
                self._generate(batch)
            except Exception as error:
                failure = InfraError(f"{self.name}: generation failed: {type(error).__name__}: {error}")
                failure.__cause__ = error
                for request in batch:
                    if not request.future.done():
                        request.future.set_exception(failure)
        for request in waiting:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(InfraError(f"{self.name}: the engine was closed"))

    def _gather(self, waiting: list[_Request]) -> bool:
        """Add arrivals until a batch is full or WINDOW_S has passed. False: the engine closes."""
        deadline = time.monotonic() + WINDOW_S
        while True:
            full = sum(request.sampling.n for request in waiting) >= MAX_BATCH
            try:
                if not waiting:
                    request = self._arrivals.get()
                    deadline = time.monotonic() + WINDOW_S
                else:
                    request = self._arrivals.get(timeout=0 if full else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return True
            if request is None:
                return False
            waiting.append(request)

    def _generate(self, batch: list[_Request]) -> None:
        """Sample a batch. Each request is answered when its own rows are done, whatever the others do."""
        sampling = batch[0].sampling
        prompts = self.encode(request.messages for request in batch)

        def finished(place: int, row: SampledRow) -> None:
            index, sample = divmod(place, sampling.n)
            request = batch[index]
            text = self.tokenizer.decode(self._end.written(row.token_ids), skip_special_tokens=True)
            request.made[sample] = Completion(
                text, row.finish_reason, len(prompts[index]), len(row.token_ids)
            )
            if len(request.made) == sampling.n:
                request.future.set_result([request.made[j] for j in range(sampling.n)])

        self._sampler.generate(
            prompts, [request.sampling.seed or 0 for request in batch],
            n=sampling.n, temperature=sampling.temperature, top_p=sampling.top_p,
            max_tokens=sampling.max_tokens, stop_ids=self._end.stop_ids, on_row=finished,
            first=[request.sampling.index for request in batch],
        )  # fmt: skip

    def encode(self, conversations: Iterable[list[Message]]) -> list[list[int]]:
        """Token ids of each conversation in the chat template, generation header included, no second BOS."""
        texts = self.tokenizer.apply_chat_template(
            list(conversations), add_generation_prompt=True, tokenize=False
        )
        clean = [without_surrogates(text) for text in texts]
        ids: list[list[int]] = self.tokenizer(clean, add_special_tokens=False)["input_ids"]
        return ids


def fingerprint(folder: Path) -> str | None:
    """Hash of a model folder: names, sizes, content (of files above 64 MiB the first and last MiB only)."""
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in _MODEL_FILES):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with open(path, "rb") as handle:
            if size <= _WHOLE_BYTES:
                digest.update(handle.read())
            else:
                digest.update(handle.read(_END_BYTES))
                handle.seek(-_END_BYTES, 2)
                digest.update(handle.read())
    return "model:" + digest.hexdigest()[:32]


def _load(model_path: str) -> tuple[Any, Any]:
    """Model and tokenizer; a folder that holds none is the user's mistake, said in one line."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    check_model(model_path)
    gpu = torch.cuda.is_available()
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path)
        model = AutoModelForCausalLM.from_pretrained(
            model_path, dtype=torch.bfloat16 if gpu else torch.float32
        ).to("cuda" if gpu else "cpu")
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
