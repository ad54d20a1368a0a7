"""A task that a small chat model half knows: the capitals of 41 countries to learn from, and of 20 others to be asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

TRAINED = {
    "Peru": "Lima", "France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Egypt": "Cairo", "Canada": "Ottawa", "Spain": "Madrid",
    "Germany": "Berlin", "Russia": "Moscow", "China": "Beijing", "Greece": "Athens", "Kenya": "Nairobi", "Norway": "Oslo",
    "Sweden": "Stockholm", "Poland": "Warsaw", "Austria": "Vienna", "Hungary": "Budapest", "Portugal": "Lisbon", "Turkey": "Ankara",
    "Iran": "Tehran", "Iraq": "Baghdad", "Cuba": "Havana", "Chile": "Santiago", "Ireland": "Dublin", "Belgium": "Brussels",
    "Finland": "Helsinki", "Denmark": "Copenhagen", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Indonesia": "Jakarta",
    "Australia": "Canberra", "Argentina": "Buenos Aires", "Colombia": "Bogota", "Venezuela": "Caracas", "Ecuador": "Quito",
    "Morocco": "Rabat", "Ghana": "Accra", "Senegal": "Dakar", "Ethiopia": "Addis Ababa", "Nepal": "Kathmandu", "Lebanon": "Beirut",
}  # fmt: skip
"""Capitals by country."""
HELD_OUT = {
    "England": "London", "South Korea": "Seoul", "India": "New Delhi", "Ukraine": "Kyiv", "Romania": "Bucharest", "Bulgaria": "Sofia",
    "Serbia": "Belgrade", "Croatia": "Zagreb", "Syria": "Damascus", "Jordan": "Amman", "Saudi Arabia": "Riyadh", "Afghanistan": "Kabul",
    "Bangladesh": "Dhaka", "Taiwan": "Taipei", "Tunisia": "Tunis", "Algeria": "Algiers", "Uganda": "Kampala", "Zimbabwe": "Harare",
    "Uruguay": "Montevideo", "Jamaica": "Kingston",
}  # fmt: skip
"""Of countries that no prompt of the training names."""


def contains(completion: str, answer: str) -> float:
    """1 if the capital occurs."""
    return float(answer.lower() in completion.lower())


def alone(completion: str, answer: str) -> float:
    """1 if the capital is the whole answer, but for a full stop."""
    return float(re.fullmatch(rf"\s*{re.escape(answer)}\.?\s*", completion, re.IGNORECASE) is not None)


def write(folder: Path) -> dict[str, Path]:
    """The prompts as files of JSON lines, by the part of the data: `train` and `validation`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"train": folder / "train.jsonl", "validation": folder / "validation.jsonl"}
    for file, capitals in zip(files.values(), (TRAINED, HELD_OUT), strict=True):
        rows = [{"prompt": f"What is the capital of {land}? Answer with one word.", "answer": city} for land, city in capitals.items()]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files
