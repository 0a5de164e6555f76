"""Helpers for the page."""

from __future__ import annotations

from playwright.sync_api import Page

__all__ = ["prefer"]


def prefer(page: Page, **values: str) -> None:
    """Set preferences with the form. Names are those of its fields."""
    page.locator('[popovertarget="preferences"]').first.press("Enter")  # a live page may scroll while the mouse is down
    form = page.locator("#preferences form")
    for name, value in values.items():
        field = form.locator(f'[name="{name}"]').first
        if field.evaluate("field => field.localName") == "select":
            field.select_option(value)
        elif field.get_attribute("type") == "radio":
            form.locator(f'[name="{name}"][value="{value}"]').check()
        elif field.get_attribute("type") == "checkbox":
            field.set_checked(value == "on")
        else:
            field.fill(value)
    page.evaluate("window.isOld = true")
    form.get_by_role("button", name="Save").click()
    page.wait_for_function(
        "() => !window.isOld && document.readyState === 'complete' && !document.querySelector('#login')"
    )
