"""Words of the report in English and simplified Chinese."""

from __future__ import annotations

Pair = tuple[str, str]

FAMILIES: dict[str, Pair] = {
    "documents": ("Enough documents", "文档数量足够"),
    "format": ("Format", "格式"),
    "empty": ("Empty documents", "空文档"),
    "oversized": ("Oversized documents", "过大的文档"),
    "exact_duplicates": ("Exact duplicates", "完全重复"),
    "near_duplicates": ("Near duplicates", "近似重复"),
    "contamination": ("Contamination", "评测数据污染"),
    "mixture": ("Mixture", "数据配比"),
    "cleanliness": ("Cleanliness", "洁净度"),
    "style": ("Published heuristics", "公开的启发式规则"),
    "language": ("Language", "语言"),
    "sensitive": ("Sensitive content", "敏感内容"),
    "labels": ("Labels", "标签"),
    "review": ("Sampled human review", "人工抽样复核"),
    "own": ("Own rule", "自定义规则"),
}

RULES: dict[str, Pair] = {
    "validation_overlap": ("Overlap of training and validation", "训练集与验证集重叠"),
    "mixture_undeclared": ("Share of undeclared domains", "未声明领域的占比"),
    "parent_overlap": ("Repeated from the earlier snapshot", "与先前快照重复"),
    "benchmarks": ("Overlap with benchmark sets", "与评测集重叠"),
    "benchmark_items": ("Benchmark items in the data", "数据中出现的评测题目"),
    "secrets": ("Secrets", "密钥与口令"),
    "forbidden_terms": ("Forbidden terms", "禁用词"),
    "personal_data": ("Personal data", "个人信息"),
    "identity_numbers": ("Identity and account numbers", "证件与账户号码"),
    "not_read": ("Files that are not read", "未读取的文件"),
}

COLUMNS: dict[str, Pair] = {
    "bytes": ("Size of a document, bytes", "文档大小（字节）"),
    "words": ("Words per document", "每篇文档的词数"),
    "tokens": ("Tokens per document", "每篇文档的词元数"),
    "longest_line": ("Longest line, bytes", "最长行（字节）"),
    "alphabetic_ratio": ("Letters per character", "字母占字符的比例"),
    "alphabetic_word_ratio": ("Words with a letter", "含字母的词的比例"),
    "repetition_ratio": ("Bytes in repeated lines", "重复行所占字节的比例"),
    "duplicate_line_character_ratio": ("Characters in repeated lines", "重复行所占字符的比例"),
    "top_2_gram_ratio": ("Most frequent pair of words", "最常见双词组的占比"),
    "punctuated_line_ratio": ("Lines that end with punctuation", "以标点结尾的行的比例"),
    "hash_word_ratio": ("Hash signs per word", "每词的井号数"),
    "control_characters": ("Control characters", "控制字符"),
    "nul": ("NUL characters", "NUL 字符"),
    "jaccard": ("Jaccard similarity of near-duplicate pairs", "近似重复对的 Jaccard 相似度"),
}

STATES: dict[str, Pair] = {
    "passed": ("passed", "通过"),
    "failed": ("failed", "未通过"),
    "warning": ("warning", "警告"),
    "not_checked": ("not checked", "未检查"),
}

SEVERITIES: dict[str, Pair] = {"blocking": ("blocking", "阻断"), "advisory": ("advisory", "提示")}

REASONS: dict[str, Pair] = {
    "not_measured": ("the measure was not run", "未执行该项测量"),
    "no_data": ("there was no data", "没有数据"),
    "nothing_matched": ("no row had a value to judge", "没有可供判断的值"),
    "not_judged": ("the rule could not be judged", "该规则无法判断"),
    "no_benchmarks": ("no benchmark set is named", "未指定评测集"),
    "no_parent": ("there is no earlier snapshot", "没有先前的快照"),
    "no_split": ("no split was given", "未提供训练与验证划分"),
    "no_languages": ("no language is declared", "未声明语言"),
    "no_labels": ("no label is defined", "未定义标签"),
    "no_terms": ("no term is forbidden", "未声明禁用词"),
    "no_review": ("no review is demanded", "未要求人工复核"),
    "no_mixture": ("no mixture is declared", "未声明配比"),
    "not_asked": ("the suite has no rule for it", "规则集中没有相应规则"),
    "nothing_to_judge": ("no document that it asks about", "没有它所适用的文档"),
}

THRESHOLDS: dict[str, Pair] = {
    "nul": ("NUL characters", "NUL 字符"),
    "control_characters": ("Control characters", "控制字符"),
    "few_letters": ("Few letters", "字母过少"),
    "repeated_lines": ("Repeated lines", "重复行"),
    "overlong_line": ("An overlong line", "过长的行"),
    "word_length": ("Mean length of words", "平均词长"),
    "many_words": ("Too many words", "词数过多"),
    "hash_signs": ("Hash signs", "井号"),
    "ellipses": ("Ellipses", "省略号"),
    "bullet_lines": ("Lines that begin with a bullet", "以项目符号开头的行"),
    "ellipsis_lines": ("Lines that end with an ellipsis", "以省略号结尾的行"),
    "alphabetic_words": ("Words with a letter", "含字母的词"),
    "stop_words": ("Stop words", "常用虚词"),
    "duplicate_lines": ("Duplicate lines", "重复的行"),
    "duplicate_line_characters": ("Characters in duplicate lines", "重复行中的字符"),
    "duplicate_paragraphs": ("Duplicate paragraphs", "重复的段落"),
    "duplicate_paragraph_characters": ("Characters in duplicate paragraphs", "重复段落中的字符"),
    **{f"top_{n}_grams": (f"The most frequent {n}-gram", f"最常见的 {n} 元词组") for n in (2, 3, 4)},
    **{f"repeated_{n}_grams": (f"Repeated {n}-grams", f"重复的 {n} 元词组") for n in range(5, 11)},
    "lorem_ipsum": ("Filler text (lorem ipsum)", "占位文本（lorem ipsum）"),
    "undecoded_characters": ("Characters that were not decoded", "未能解码的字符"),
    "long_line": ("A long line of code", "过长的代码行"),
    "letters": ("Letters in code", "代码中的字母"),
}

SOURCES: dict[str, str] = {
    "declared by the policy": "由策略声明",
    "share of documents with a secret": "含密钥或口令的文档占比",
    "share of documents with the number of a card, an account or a person whose check digits hold": (
        "含校验位正确的银行卡、账户或个人证件号码的文档占比"
    ),
    "share of documents with an e-mail, telephone or network address": "含电子邮件、电话或网络地址的文档占比",
    "share of documents that are, or nearly are, in the earlier snapshot": "与先前快照中的文档相同或近似的文档占比",
    "the label definition that the policy names": "策略所指定的标签定义",
    "the languages that the policy declares": "策略所声明的语言",
    "a NUL is no text": "NUL 不属于文本",
    "wide: data in text, not text": "宽限：文本中夹带的数据",
    "wide: damage, not style; the prose rule is alphabetic words": "宽限：只查损坏，不查文风",
}
"""What a rule rests on, where that is no work that is cited: English and Chinese."""

NOTHING: dict[str, str] = {
    "nothing was checked: no documents": "未作任何检查：没有文档",
    "nothing was checked: the suite has no rules": "未作任何检查：规则集中没有规则",
    "nothing was checked: no rule": "未作任何检查：没有可判断的规则",
}
"""How a check's reason begins that judged nothing, and what it is in Chinese."""

UNITS: dict[str, Pair] = {"tokens": ("tokens", "词元"), "bytes": ("bytes", "字节")}


def rule_name(rule_id: str, family: str) -> Pair:
    """What a gate is called: by its rule, else its family; a domain or kind after the colon is told as it is."""
    head, colon, tail = rule_id.partition(":")
    if family == "own":
        return (rule_id, rule_id)
    en, zh = (
        RULES.get(rule_id)
        or RULES.get(head)
        or FAMILIES.get(head)
        or FAMILIES.get(family)
        or (rule_id, rule_id)
    )
    return (f"{en}: {tail}", f"{zh}：{tail}") if colon else (en, zh)


def threshold_name(threshold: str) -> Pair:
    """What a threshold of single documents is called."""
    words = threshold.replace("_", " ")
    return THRESHOLDS.get(threshold, (words, words))


def source_words(source: str) -> Pair:
    """What a rule rests on; a cited work is told as it is."""
    return (source, SOURCES.get(source, source))


def column_name(column: str) -> Pair:
    """What a column of statistics is called."""
    return COLUMNS.get(column, (column.replace("_", " "), column))
