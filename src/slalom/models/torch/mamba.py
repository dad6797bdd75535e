"""A sequence classifier on Mamba, which transformers does not have: a linear head on the last state.

A file of its own: it needs modelling code of transformers, which is imported only where it is used. Where no
kernel is installed, transformers walks over a text step by step, and the gradient of each step is as large as
the whole text; `scan` has all states at once, and a gradient that is a scan as well.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import nn
from torch.autograd.function import FunctionCtx
from transformers import MambaConfig, MambaModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.mamba.modeling_mamba import MambaMixer, MambaPreTrainedModel

_LANES = 2**12
"""A step over fewer numbers costs its call, not its arithmetic; then blocks of steps go side by side."""
_AT_ONCE = 2**22
"""Numbers of a tensor of states; larger ones are fresh memory of the system each time, at three times the
price."""


def scan(decay: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
    """All states of `state[t] = decay[t] * state[t - 1] + entry[t]`, from zero; time comes first."""
    if torch.is_grad_enabled() and (decay.requires_grad or entry.requires_grad):
        return cast(torch.Tensor, _Scan.apply(decay, entry))
    return _states(decay, entry)


class _Scan(torch.autograd.Function):
    """With its gradient, which is a scan in the other direction; so it has a gradient, too."""

    @staticmethod
    def forward(ctx: FunctionCtx, decay: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        states = _states(decay, entry)
        ctx.save_for_backward(decay, states)
        return states

    @staticmethod
    def backward(ctx: FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        decay, states = cast(Any, ctx).saved_tensors
        later = torch.cat([decay[1:], decay[:1]]).flip(0)  # nothing is behind the last: any number will do
        of_entry = scan(later, grad.flip(0)).flip(0)
        of_decay = of_entry * torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        return of_decay, of_entry


def _states(decay: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
    """Blocks of steps, side by side, each from zero; then each block gets what the one before it leaves."""
    states, length = entry.clone(), len(entry)
    blocks = max(1, min(math.isqrt(length), _LANES // max(1, entry[0].numel())))
    steps = length // blocks
    whole = blocks * steps
    inner, left = (part[:whole].unflatten(0, (blocks, steps)) for part in (states, decay))
    for step in range(1, steps):
        inner[:, step].addcmul_(left[:, step], inner[:, step - 1])
    if blocks > 1:
        left = left.cumprod(dim=1)
        for block in range(1, blocks):
            inner[block].addcmul_(left[block], inner[block - 1, -1])
    for step in range(whole, length):
        states[step].addcmul_(decay[step], states[step - 1])
    return states


class ScanMixer(MambaMixer):
    """The mixer of transformers with the same weights; on a CPU and without a cache, states by `scan`."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        cache_params: Any = None,  # noqa: ANN401 - its type has another name in older transformers
        attention_mask: torch.Tensor | None = None,
        **more: object,
    ) -> torch.Tensor:
        if cache_params is not None or hidden_states.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(
                hidden_states, cache_params=cache_params, attention_mask=cast(Any, attention_mask), **more
            )
        texts = max(
            1, _AT_ONCE // (hidden_states.shape[1] * self.intermediate_size * self.ssm_state_size or 1)
        )
        parts = hidden_states.split(texts)
        masks = (None,) * len(parts) if attention_mask is None else attention_mask[:, :, None].split(texts)
        return torch.cat([self._mix(part, mask) for part, mask in zip(parts, masks, strict=True)])

    def _mix(self, texts: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Algorithm 2 of the Mamba paper; time comes first from the convolution on."""
        read, gate = self.in_proj(_masked(texts, mask)).chunk(2, dim=-1)
        read = self.act(self.conv1d(read.transpose(1, 2))[..., : texts.shape[1]]).transpose(1, 2)
        read = _masked(read, mask).transpose(0, 1).contiguous()
        sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
        step, enter, leave = self.x_proj(read).split(sizes, dim=-1)
        exact = torch.promote_types(read.dtype, torch.float32)  # states of half precision forget
        step = nn.functional.softplus(self.dt_proj(step)).to(exact)
        decay = torch.exp(-step[..., None] * torch.exp(self.A_log.to(exact)))
        entry = (step * read)[..., None] * enter[:, :, None].to(exact)
        output = (scan(decay, entry) @ leave[..., None].to(exact)).squeeze(-1) + self.D.to(exact) * read
        return self.out_proj(output.to(gate.dtype).transpose(0, 1) * self.act(gate))


def _masked(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return states if mask is None else (states * mask).to(states.dtype)


class MambaForSequenceClassification(MambaPreTrainedModel):
    """MambaModel and a linear layer that reads the state of the last token.

    Saves and loads like any transformers model; `open_model` knows it by the name in the config.
    """

    def __init__(self, config: MambaConfig):
        super().__init__(config)
        self.num_labels = cast(int, config.num_labels)
        self.backbone = MambaModel(config)
        for place, block in enumerate(self.backbone.layers):
            block.mixer = ScanMixer(config, layer_idx=place)
        self.score = nn.Linear(config.hidden_size, self.num_labels, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.backbone.get_input_embeddings()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool = False,
    ) -> SequenceClassifierOutput:
        states = self.backbone(input_ids, attention_mask=attention_mask, use_cache=use_cache)[0]
        if attention_mask is None:
            last = torch.full((len(input_ids),), input_ids.shape[1] - 1, device=states.device)
        else:
            places = torch.arange(input_ids.shape[1], device=attention_mask.device)
            last = (places * attention_mask).argmax(dim=1)
        state = states[torch.arange(len(states), device=states.device), last.to(states.device)]
        logits = self.score(state.to(self.score.weight.dtype))  # the backbone's residuals may be float32
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits)
