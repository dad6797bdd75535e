"""A sequence classifier on Mamba, which transformers does not have: a linear head on the last state.

A file of its own: it needs modelling code of transformers, which is imported only where it is used.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from transformers import MambaConfig, MambaModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.mamba.modeling_mamba import MambaPreTrainedModel


class MambaForSequenceClassification(MambaPreTrainedModel):
    """MambaModel and a linear layer that reads the state of the last token.

    Saves and loads like any transformers model; `open_model` knows it by the name in the config.
    """

    def __init__(self, config: MambaConfig):
        super().__init__(config)
        self.num_labels = cast(int, config.num_labels)
        self.backbone = MambaModel(config)
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
